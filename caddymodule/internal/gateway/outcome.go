package gateway

import (
	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/coordinator/metrics"
)

// outcome is the result that an answer counts as.
type outcome struct {
	outcome metrics.Outcome
	refusal metrics.Refusal
}

func refused(why metrics.Refusal) outcome { return outcome{metrics.Refused, why} }

// outcomes maps each answer but [decision.Proxy] to its outcome. For [decision.SendUnavailable] the
// detail takes precedence.
var outcomes = [...]outcome{
	decision.SendOutdated:     refused(metrics.RefusedOutdated),
	decision.ShowOutdated:     refused(metrics.RefusedOutdated),
	decision.SendTooEarly:     refused(metrics.RefusedTooEarly),
	decision.SendBadBody:      refused(metrics.RefusedBadBody),
	decision.SendCrossOrigin:  refused(metrics.RefusedCrossOrigin),
	decision.SendMisdirected:  refused(metrics.RefusedMisdirected),
	decision.ShowMisdirected:  refused(metrics.RefusedMisdirected),
	decision.SendOtherHost:    refused(metrics.RefusedOtherHost),
	decision.RedirectToHost:   {metrics.Redirected, metrics.NotRefused},
	decision.SendUnpublished:  refused(metrics.RefusedUnpublished),
	decision.ShowUnpublished:  refused(metrics.RefusedUnpublished),
	decision.SendNoListener:   refused(metrics.RefusedNoListener),
	decision.ShowNoListener:   refused(metrics.RefusedNoListener),
	decision.RedirectByName:   {metrics.Redirected, metrics.NotRefused},
	decision.SendUnavailable:  refused(metrics.RefusedUnchecked),
	decision.ShowUnavailable:  refused(metrics.RefusedUnchecked),
	decision.SendUnauthorized: refused(metrics.RefusedUnauthorized),
	decision.ShowLogin:        {metrics.SignIn, metrics.NotRefused},
	decision.SendBadToken:     refused(metrics.RefusedBadToken),
	decision.SendScopeMissing: refused(metrics.RefusedScopeMissing),
	decision.SendNotFound:     refused(metrics.RefusedNotFound),
	decision.ShowNotFound:     refused(metrics.RefusedNotFound),
	decision.SendFailed:       refused(metrics.RefusedFailed),
	decision.ShowFailed:       refused(metrics.RefusedFailed),
	decision.SendAsleep:       refused(metrics.RefusedAsleep),
	decision.ShowAsleep:       refused(metrics.RefusedAsleep),
	decision.SendPutToSleep:   refused(metrics.RefusedAsleep),
	decision.ShowPutToSleep:   refused(metrics.RefusedAsleep),
	decision.SendOverload:     refused(metrics.RefusedOverload),
	decision.SendOverShare:    refused(metrics.RefusedOverShare),
	decision.SendLimit:        refused(metrics.RefusedLimit),
	decision.ShowLimit:        refused(metrics.RefusedLimit),
	decision.SendBadGateway:   refused(metrics.RefusedBadGateway),
	decision.ShowBadGateway:   refused(metrics.RefusedBadGateway),
	decision.ShowWake:         {metrics.WakePage, metrics.NotRefused},
}

// details are why a program's workspace is unavailable.
var details = map[string]metrics.Refusal{
	"problem.workspace.at_limit":          metrics.RefusedLimit,
	"problem.workspace.just_started":      metrics.RefusedStarting,
	"problem.workspace.no_answer":         metrics.RefusedUnreachable,
	"problem.workspace.not_woken":         metrics.RefusedNotWoken,
	"problem.workspace.session_unchecked": metrics.RefusedUnchecked,
	"problem.workspace.stopping":          metrics.RefusedStopping,
	"problem.workspace.timed_out":         metrics.RefusedTimeout,
	"problem.workspace.unconfirmed":       metrics.RefusedUnconfirmed,
}

// outcomeOf returns the outcome of a request with the decision's answer.
func outcomeOf(kind decision.ClientKind, d decision.Decision) (metrics.Client, metrics.Outcome, metrics.Refusal) {
	o := outcomes[d.Answer]
	if why, ok := details[d.Detail]; ok {
		o.refusal = why
	}
	return clientOf(kind), o.outcome, o.refusal
}

// clientOf returns the kind of client for the metrics.
func clientOf(kind decision.ClientKind) metrics.Client { return clientKinds[kind] }

var clientKinds = [...]metrics.Client{
	decision.Program: metrics.Program, decision.Navigation: metrics.Navigation,
	decision.SelfNavigation: metrics.SelfNavigation, decision.Subresource: metrics.Subresource,
}
