package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/control/leader"
)

// TestAFaultOutlastsATerm: the rounds of the next term continue the fault that began in the last one, and log its end.
func TestAFaultOutlastsATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		c := &Coordinator{log: zap.New(core)}
		var fault error
		run := c.rounds("history", "trimming", time.Hour, func(context.Context) error { return fault })
		term := func(of error) {
			fault = of
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- run(ctx, leader.Term{}) }()
			synctest.Wait() // after the first round
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		term(errors.New("away"))
		term(errors.New("away"))
		term(nil)
		all := logs.All()
		if len(all) != 2 || all[0].Level != zapcore.WarnLevel || all[1].Level != zapcore.InfoLevel {
			t.Errorf("logged %v", all)
		}
	})
}
