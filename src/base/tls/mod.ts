/** The service's own TLS: the certificate and its key as files, and how a running service takes new ones. */
export { type Certificate, createCertificate } from "./certificate.ts";
export { type LoadedCertificate, loadCertificate, type TlsFiles, tlsWarning } from "./tls_files.ts";
