/** A mail server that keeps what it gets: enough of SMTP (RFC 5321) for one mail at a time. */
import { createServer, type Socket } from "node:net";

export interface SmtpReceiver {
  readonly port: number;
  /** The accepted mails, as they came. */
  readonly mails: readonly string[];
  close(): Promise<void>;
}

interface ReceiverOptions {
  /** 0 by default: the system chooses. */
  readonly port?: number;
  /** Called with each mail before it is answered; false closes the connection without an answer. */
  readonly isAnswered?: (mail: string) => boolean;
}

/** Starts a receiver on 127.0.0.1. A mail counts as accepted before its answer, so a lost answer is a mail, too. */
export async function startSmtpReceiver({
  port = 0,
  isAnswered = () => true,
}: ReceiverOptions = {}): Promise<SmtpReceiver> {
  const mails: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    let received = "";
    let isData = false;
    const say = (line: string) => socket.write(`${line}\r\n`);
    say("220 test ready");
    socket.on("data", (chunk) => {
      received += chunk.toString();
      for (;;) {
        const end = received.indexOf(isData ? "\r\n.\r\n" : "\r\n");
        if (end === -1) return;
        const text = received.slice(0, end);
        received = received.slice(end + (isData ? 5 : 2));
        if (isData) {
          isData = false;
          mails.push(text);
          if (isAnswered(text)) say("250 accepted");
          else socket.destroy();
        } else if (/^DATA$/i.test(text)) {
          isData = true;
          say("354 go on");
        } else if (/^QUIT$/i.test(text)) {
          say("221 bye");
          socket.end();
        } else say(/^(EHLO|HELO|MAIL|RCPT)/i.test(text) ? "250 ok" : "502 unknown");
      }
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: "127.0.0.1", port }, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : port,
    mails,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
