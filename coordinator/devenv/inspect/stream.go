package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The channels of a command's streams: the first byte of each message.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelStatus
	channelClose = 255 // of the channel in the next byte
)

// streamProtocol is the first version that can signal the end of the input.
const streamProtocol = "v5.channel.k8s.io"

// stream runs the command that an address of the API contains.
func (k *Kubernetes) stream(ctx context.Context, path string, stdin io.Reader) ([]byte, error) {
	conn, _, err := websocket.Dial(ctx, k.config.Host+path, &websocket.DialOptions{
		HTTPClient: k.client, Subprotocols: []string{streamProtocol},
	})
	if err != nil {
		return nil, err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	if conn.Subprotocol() != streamProtocol {
		return nil, fmt.Errorf("the server speaks %q, not %s", conn.Subprotocol(), streamProtocol)
	}
	if stdin != nil {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, err
		}
		const maxMessage = 32 << 10
		for len(data) > 0 {
			n := min(len(data), maxMessage)
			if err := conn.Write(ctx, websocket.MessageBinary, append([]byte{channelStdin}, data[:n]...)); err != nil {
				return nil, err
			}
			data = data[n:]
		}
		if err := conn.Write(ctx, websocket.MessageBinary, []byte{channelClose, channelStdin}); err != nil {
			return nil, err
		}
	}
	var out, errs bytes.Buffer
	for {
		_, message, err := conn.Read(ctx)
		switch {
		case err != nil:
			return out.Bytes(), fmt.Errorf("the command's output ended without its result: %w", err)
		case len(message) == 0:
		case message[0] == channelStdout:
			out.Write(message[1:])
		case message[0] == channelStderr:
			errs.Write(message[1:])
		case message[0] == channelStatus:
			return out.Bytes(), result(message[1:], &errs)
		}
	}
}

// result returns the error in the status of a command that has ended.
func result(text []byte, stderr *bytes.Buffer) error {
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Status == metav1.StatusSuccess {
		return nil
	}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if code, err := strconv.Atoi(c.Message); c.Type == "ExitCode" && err == nil {
				return failed(code, stderr)
			}
		}
	}
	return errors.New(s.Message)
}
