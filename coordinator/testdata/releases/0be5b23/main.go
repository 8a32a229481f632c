// Command main is a coordinator process of that release, as the tests of upgrades start it. It
// says when it leads and when it does not, and changes desired states and reads workspaces as requests do: it reads
// an owner, a workspace and a state on each line.
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
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/pressure"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

type config struct {
	Node, Database, Redis string
	Archive               archive.Options
	Docker                docker.Options
	GCDelay, GCInterval   time.Duration
}

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
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(os.Stderr), zap.InfoLevel))
	core, err := coordinator.New(coordinator.Options{
		Database: c.Database, Redis: c.Redis, Archive: c.Archive, Docker: c.Docker, NodeID: c.Node,
	}, log)
	if err != nil {
		return err
	}
	s := coordinator.DefaultSettings()
	s.Pressure = pressure.Settings{Interval: time.Hour}
	s.Leader.RetryInterval = 200 * time.Millisecond
	s.Reconcile.IdleInterval, s.Reconcile.SweepInterval = time.Second, time.Second
	s.TTL.Standby, s.TTL.Archive = 24*time.Hour, 24*time.Hour
	s.Limits.PerUser, s.Limits.Global = 100, 100
	s.GC.Delay, s.GC.Interval, s.GC.UploadExpiry = c.GCDelay, c.GCInterval, c.GCDelay
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := core.Apply(ctx, s); err != nil {
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
			actor := service.Actor{UserID: words[0], Kind: "test"}
			err := core.Service().SetDesired(ctx, actor, workspace.ID(words[1]), workspace.DesiredState(words[2]))
			if err == nil {
				_, err = core.Service().Get(ctx, actor, workspace.ID(words[1]))
			}
			report("%s is to be %s: %v", words[1], words[2], err)
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
