package v1

import "github.com/codehub/gateway/caddymodule/internal/problem"

// ExecProtocol is the subprotocol of the WebSocket of a command. Its binary messages have the number of a channel and
// then bytes, and its text messages are JSON. The client's first message is an [ExecStart]. Then it sends
// [ExecStdin], [ExecClose] and [ExecResize]; the server sends [ExecStdout], [ExecStderr] and [ExecSaid].
const ExecProtocol = "v1.exec.codehub"

// The channels.
const (
	ExecStdin  byte = 0
	ExecStdout byte = 1
	ExecStderr byte = 2
	// ExecClose ends a channel, whose number is the second byte: the command's input.
	ExecClose byte = 255
)

// ExecWindow is how many bytes of input a client may send that the command has not yet taken, and ExecPiece how many bytes a message
// has at most besides the channel.
const (
	ExecWindow = 256 << 10
	ExecPiece  = 32 << 10
)

// ExecStart says what to run.
type ExecStart struct {
	// Command is the program and its arguments.
	Command []*string `json:"command"`
	// Stdin says that it gets input; without it, the input is empty.
	Stdin bool `json:"stdin"`
	// Terminal is the client's terminal, for a command that runs in one.
	Terminal *ExecTerminal `json:"terminal"`
}

// ExecTerminal is a terminal: how many characters it shows, and as what programs know it.
type ExecTerminal struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
	Type    string `json:"type"`
}

// ExecResize says that the terminal has another size. Its type stays.
type ExecResize struct {
	Terminal *ExecTerminal `json:"terminal"`
}

// ExecSaid is what the server says about a command: one of its fields.
type ExecSaid struct {
	// Taken is how many further bytes of input the command has taken.
	Taken int `json:"taken,omitempty"`
	// ExitCode is how the command has ended. It comes last.
	ExitCode *int `json:"exit_code,omitempty"`
	// Problem is why it did not run, or why it is not known how it ends. It comes last.
	Problem *problem.Problem `json:"problem,omitempty"`
}
