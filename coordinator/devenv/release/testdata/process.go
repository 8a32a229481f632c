// Command process is a coordinator process of an older release, as the tests of upgrades start it.
// It says when it leads and when it does not, and does what requests do. A line that it reads is a
// number, an owner, a command and what that is about. The answer is the number, the error and what
// was made:
//
//	1 OWNER create NAME      2 OWNER desire WORKSPACE STATE
//	3 OWNER note WORKSPACE   4 OWNER use WORKSPACE
//
// This file is the same for every release; the other one is the release's own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/workspace"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var c config
	if err := json.Unmarshal([]byte(os.Getenv("CODEHUB_TEST_RELEASE")), &c); err != nil {
		return err
	}
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	log := zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), zap.InfoLevel))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	core, err := prepare(ctx, c, log)
	if err != nil {
		return err
	}
	if err := core.Start(ctx); err != nil {
		return err
	}
	var out sync.Mutex
	report := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	report("started")
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			words := strings.Fields(lines.Text())
			made, err := request(ctx, core, actor{UserID: words[1], Kind: "test"}, words[2], words[3:])
			report("%s %v %s", words[0], err, made)
		}
		os.Exit(0) // the test is gone
	}()
	for leads := false; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if now := core.Health().IsLeader; now != leads {
			leads = now
			report("%s", map[bool]string{true: "leads", false: "follows"}[leads])
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return core.Stop(ending)
}

// request does what a request to the API or to a workspace does.
func request(ctx context.Context, core *coordinator.Coordinator, a actor, command string, words []string) (
	made workspace.ID, err error) {
	switch id := workspace.ID(words[0]); command {
	case "create":
		w, err := core.Service().Create(ctx, a, createInput{Name: words[0]})
		return w.ID, err
	case "desire":
		if err := core.Service().SetDesired(ctx, a, id, workspace.DesiredState(words[1])); err != nil {
			return "", err
		}
		_, err := core.Service().Get(ctx, a, id)
		return "", err
	case "note":
		note := "written by an older release"
		_, err := core.Service().Update(ctx, a, id, patch{Memo: &note})
		return "", err
	case "use":
		core.Activity().Record(id)
		return "", core.Activity().Flush(ctx)
	}
	return "", fmt.Errorf("no command %q", command)
}
