/** What a command ends with, for scripts and service managers; the README names them too. */
export const SUCCESS = 0;
export const REFUSED = 1;
export const WRONG_USAGE = 2;
/** `serve` alone: starting it again cannot help. Source: EX_CONFIG of sysexits.h, which systemd calls CONFIG. */
export const WRONG_SETTINGS = 78;
