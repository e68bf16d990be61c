/** Files that are imported as text, `with { type: "text" }`. A `.client.js` is a script for browsers. */
declare module "*.sql" {
  const text: string;
  export default text;
}

declare module "*.css" {
  const text: string;
  export default text;
}

declare module "*.client.js" {
  const text: string;
  export default text;
}

declare module "*.csv" {
  const text: string;
  export default text;
}
