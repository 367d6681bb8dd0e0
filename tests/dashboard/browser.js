// What modules expect of a browser as soon as they are loaded. Import it before them.

globalThis.location = { hash: "" };
globalThis.history = { replaceState: (_state, _title, hash) => Object.assign(location, { hash }) };
globalThis.addEventListener = () => {};
globalThis.setInterval = () => 0; // a clock that runs would keep the test process alive
globalThis.document = { baseURI: "http://127.0.0.1:4101/" };
