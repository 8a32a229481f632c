package v1

import "github.com/codehub/gateway/caddymodule/internal/problem"

// ExecProtocol is the subprotocol of the WebSocket of a command. Its binary messages have the number of a channel
// followed by bytes, and its text messages are JSON. The client's first message is an [ExecStart]. Then it sends
// [ExecStdin], [ExecClose] and [ExecResize]; the server sends [ExecStdout], [ExecStderr] and [ExecSaid].
const ExecProtocol = "v1.exec.codehub"

// The channels.
const (
	ExecStdin  byte = 0
	ExecStdout byte = 1
	ExecStderr byte = 2
	// ExecClose ends a channel, namely the command's input. The channel's number is the second
	// byte.
	ExecClose byte = 255
)

// ExecWindow bounds the bytes of input that a client may send before the command has taken them, and ExecPiece the
// bytes of a message besides the channel.
const (
	ExecWindow = 256 << 10
	ExecPiece  = 32 << 10
)

// ExecStart is the command to run.
type ExecStart struct {
	// Command is the program and its arguments.
	Command []*string `json:"command"`
	// Stdin says that the command gets input; otherwise the input is empty.
	Stdin bool `json:"stdin"`
	// Terminal is the client's terminal, for a command that runs in one.
	Terminal *ExecTerminal `json:"terminal"`
}

// ExecTerminal is a terminal: its size in characters, and its type as programs know it.
type ExecTerminal struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
	Type    string `json:"type"`
}

// ExecResize tells the new size of the terminal. Its type stays.
type ExecResize struct {
	Terminal *ExecTerminal `json:"terminal"`
}

// ExecSaid is a message of the server about a command. It has one of these fields.
type ExecSaid struct {
	// Taken is how many further bytes of input the command has taken.
	Taken int `json:"taken,omitempty"`
	// ExitCode is the exit code of the command. It comes last.
	ExitCode *int `json:"exit_code,omitempty"`
	// Problem is why the command did not run, or why its end is not known. It comes last.
	Problem *problem.Problem `json:"problem,omitempty"`
}
