// One terminal, one connection. Addresses are relative, so the page works below any
// path. A closed connection is not opened again by itself: an open tab must not
// keep, or bring, its workspace awake.
'use strict';

const element = document.getElementById('terminal');
const terminal = new Terminal({cursorBlink: true, fontSize: 15});
const fit = new FitAddon.FitAddon();
terminal.loadAddon(fit);
terminal.open(element);
fit.fit();
window.terminal = terminal; // for tests and the curious

const address = new URL('ws', location.href);
address.protocol = address.protocol.replace('http', 'ws');
const socket = new WebSocket(address);
socket.binaryType = 'arraybuffer';

const encoder = new TextEncoder();
const open = () => socket.readyState === WebSocket.OPEN;
const sendSize = () => open() && socket.send(JSON.stringify({cols: terminal.cols, rows: terminal.rows}));

socket.onopen = () => {
  element.dataset.state = 'connected';
  sendSize();
  terminal.focus();
};
socket.onmessage = (event) => terminal.write(new Uint8Array(event.data));
socket.onclose = () => {
  element.dataset.state = 'closed';
  document.getElementById('notice').hidden = false;
};
terminal.onData((text) => open() && socket.send(encoder.encode(text)));
terminal.onResize(sendSize);
addEventListener('resize', () => fit.fit());
document.getElementById('reload').onclick = () => location.reload();
