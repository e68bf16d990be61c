// Makes a reload show another page: otherwise it would send the form again and issue a second key.
const page = document.querySelector("[data-reload]")?.getAttribute("data-reload");
history.replaceState(null, "", page);

export {};
