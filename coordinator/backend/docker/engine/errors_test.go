package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api"

	"github.com/codehub/gateway/coordinator/backend/internal/peer"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestWrap(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want workspace.ErrorReason // "" for no reason of its own
		says string
	}{
		"refused":     {&net.OpError{Op: "dial", Net: "unix", Err: errors.New("connection refused")}, workspace.ReasonUnreachable, "refused"},
		"reset":       {&net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", errors.New("reset"))}, workspace.ReasonUnreachable, "reset"},
		"ended":       {fmt.Errorf("decoding: %w", io.ErrUnexpectedEOF), workspace.ReasonUnreachable, "EOF"},
		"unavailable": {errdefs.ErrUnavailable, workspace.ReasonUnreachable, "unavailable"},
		"stopping":    {errors.New("Error response from daemon: get ws-1-home: database not open"), workspace.ReasonUnreachable, "not open"},
		"no version": {fmt.Errorf("client version %s is too new. Maximum supported API version is 1.41: %w", api.DefaultVersion, errdefs.ErrInvalidArgument),
			workspace.ReasonUnreachable, "too new"},
		"replaced":      {&net.OpError{Op: "dial", Err: &peer.ChangedError{Kind: "Docker engine", Was: "A", Is: "B"}}, workspace.ReasonUnreachable, "another Docker engine, B"},
		"too late":      {context.DeadlineExceeded, workspace.ReasonUnreachable, "did not answer in time"},
		"given up":      {context.Canceled, "", "canceled"},
		"disk":          {errors.New("write /var/lib/docker/x: no space left on device"), "", "disk is full"},
		"anything else": {errdefs.ErrInternal, "", "internal"},
	} {
		err := Wrap("doing it", c.err)
		var failure *workspace.Failure
		if errors.As(err, &failure) != (c.want != "") || c.want != "" && failure.Reason != c.want {
			t.Errorf("%s: %v has another reason than %q", name, err, c.want)
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "doing it") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Wrap("doing it", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
