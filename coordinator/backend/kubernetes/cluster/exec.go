package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/guard"
)

// The channels of a command. The first byte of each message is its channel.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
	channelClose  = 255 // the second byte is the channel to close
)

// inputPiece is how many bytes of input one message has at most, as in Kubernetes' own client.
const inputPiece = 32 << 10

// maxMessage bounds a message from a command, in bytes. The cluster sends pieces of 32 KiB.
const maxMessage = 1 << 20

// NotStartedError is the cluster's message about a command without an exit code.
type NotStartedError struct{ Message string }

// Error implements error.
func (e *NotStartedError) Error() string { return e.Message }

// Exec runs a command in a container of a Pod, and writes its output to stdout and stderr, which may be nil. An error
// means that the command did not start ([*NotStartedError]), or did not run to its end. Unlike Kubernetes' package
// remotecommand, Exec uses the client's own connections, so that the command runs only in the cluster whose identity
// was checked. When ctx ends, Exec closes the connection, but does not kill the command.
func (c *Client) Exec(ctx context.Context, pod, container string, command backend.Command, stdout, stderr io.Writer) (
	exitCode int, err error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	u := c.core.Get().Namespace(c.settings.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command.Words, Stdin: command.Stdin != nil, Stdout: true,
			Stderr: stderr != nil && command.Terminal == nil, TTY: command.Terminal != nil,
		}, c.params).URL()
	protocols := []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}
	if command.Stdin != nil && command.Terminal == nil {
		// Only this protocol can end the input. No other is offered, because the command starts with the handshake.
		protocols = protocols[:1]
	}
	conn, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: c.http, Subprotocols: protocols})
	if err != nil {
		err := refused(resp, err)
		if len(protocols) == 1 && resp != nil && resp.StatusCode == http.StatusForbidden && !isStatus(err) {
			return 0, errNoEnd // it refuses the protocol; a missing right has a status
		}
		return 0, c.explain(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	if !slices.Contains(protocols, conn.Subprotocol()) {
		return 0, errNoEnd
	}
	if t := command.Terminal; t != nil {
		if err := resize(ctx, conn, t.Size); err != nil {
			return 0, err
		}
		go guard.Run("resizing a terminal", func() { pass(ctx, conn, t.Resized) })
	}
	if command.Stdin != nil {
		go guard.Run("passing input to a command", func() { input(ctx, conn, command) })
	}
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return 0, fmt.Errorf("the connection ended before the command: %w", err)
		}
		if len(message) < 2 { // the cluster starts with an empty message, before any output
			continue
		}
		switch message[0] {
		case channelStdout:
			if _, err := stdout.Write(message[1:]); err != nil {
				return 0, err
			}
		case channelStderr:
			if stderr == nil {
				continue
			}
			if _, err := stderr.Write(message[1:]); err != nil {
				return 0, err
			}
		case channelError:
			return ended(message[1:])
		}
	}
}

// errNoEnd means that the cluster's protocol cannot end a command's input.
var errNoEnd = errors.New("the cluster is too old for commands with input: they need Kubernetes 1.30 or newer")

// input sends the command's input, and its end. It stops when the connection does; input that the command no longer
// reads is lost.
func input(ctx context.Context, conn *websocket.Conn, command backend.Command) {
	for piece := []byte{channelStdin, inputPiece: 0}; ; {
		n, err := command.Stdin.Read(piece[1:])
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, piece[:1+n]) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	if command.Terminal == nil {
		_ = conn.Write(ctx, websocket.MessageBinary, []byte{channelClose, channelStdin})
	}
}

// pass sends each size of a terminal to the cluster.
func pass(ctx context.Context, conn *websocket.Conn, sizes <-chan backend.Size) {
	for {
		select {
		case s := <-sizes:
			if resize(ctx, conn, s) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// resize sends a terminal's size.
func resize(ctx context.Context, conn *websocket.Conn, s backend.Size) error {
	message := fmt.Appendf([]byte{channelResize}, `{"Width":%d,"Height":%d}`, s.Columns, s.Rows)
	return conn.Write(ctx, websocket.MessageBinary, message)
}

// refused returns the error of a connection that was not upgraded, with the cluster's explanation.
func refused(resp *http.Response, err error) error {
	if resp == nil || resp.Body == nil {
		return err
	}
	// The library keeps the beginning of the body.
	body, readErr := io.ReadAll(resp.Body)
	var status metav1.Status
	if readErr != nil || json.Unmarshal(body, &status) != nil || status.Code == 0 {
		if resp.StatusCode == http.StatusUnauthorized {
			return apierrors.NewUnauthorized(err.Error())
		}
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func isStatus(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status)
}

// ended parses how the command ended.
func ended(message []byte) (exitCode int, err error) {
	var status metav1.Status
	if err := json.Unmarshal(message, &status); err != nil {
		return 0, fmt.Errorf("reading how the command ended: %w", err)
	}
	if status.Status == metav1.StatusSuccess {
		return 0, nil
	}
	if status.Reason == remotecommand.NonZeroExitCodeReason && status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == remotecommand.ExitCodeCauseType {
				return strconv.Atoi(cause.Message)
			}
		}
	}
	return 0, &NotStartedError{status.Message}
}
