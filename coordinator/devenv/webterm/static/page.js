// One terminal, one connection after the other. Addresses are relative, so the page works below any
// path. A connection that broke off is opened again for a while, as when a server restarts: that wakes
// no workspace that sleeps. After that, and after the end of the shell, it waits for a person: an open
// tab must not keep its workspace awake.
'use strict';

const element = document.getElementById('terminal');
const notice = document.getElementById('notice');
const terminal = new Terminal({cursorBlink: true, fontSize: 15});
const fit = new FitAddon.FitAddon();
terminal.loadAddon(fit);
terminal.open(element);
fit.fit();
window.terminal = terminal; // for tests and the curious

const address = new URL('ws', location.href);
address.protocol = address.protocol.replace('http', 'ws');
const encoder = new TextEncoder();
const pauses = [500, 1000, 2000, 4000, 8000, 15000]; // milliseconds
const shellEnded = 1000; // the code of a normal end
let socket;
let attempts = 0;
let again = 0;

const open = () => socket.readyState === WebSocket.OPEN;
const sendSize = () => open() && socket.send(JSON.stringify({cols: terminal.cols, rows: terminal.rows}));

function connect() {
  clearTimeout(again);
  again = 0;
  socket = new WebSocket(address);
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => {
    if (element.dataset.state === 'closed') terminal.reset(); // it is another shell
    element.dataset.state = 'connected';
    notice.hidden = true;
    attempts = 0;
    sendSize();
    terminal.focus();
  };
  socket.onmessage = (event) => terminal.write(new Uint8Array(event.data));
  socket.onclose = ({code}) => {
    element.dataset.state = 'closed';
    notice.hidden = false;
    if (code !== shellEnded) retry();
  };
}

// While the gateway says over the page that the workspace sleeps, there is nothing to open.
function retry() {
  if (attempts === pauses.length) return;
  again = setTimeout(() => (document.querySelector('codehub-notice') ? retry() : connect()), pauses[attempts++]);
}

// A person who goes on here wants a shell again.
function wanted() {
  attempts = 0;
  if (socket.readyState === WebSocket.CLOSED) connect();
}

connect();
terminal.onData((text) => (open() ? socket.send(encoder.encode(text)) : wanted()));
terminal.onResize(sendSize);
addEventListener('resize', () => fit.fit());
document.getElementById('reload').onclick = wanted;
