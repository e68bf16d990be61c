/** Thrown while settings are read. `readConfig` turns it into a refusal. */
export class SettingError extends Error {
  /** The wrong setting, if there is only one: the refusal then names the place where it is set. */
  readonly setting: string | undefined;

  constructor(message: string, setting?: string) {
    super(message);
    this.setting = setting;
  }
}
