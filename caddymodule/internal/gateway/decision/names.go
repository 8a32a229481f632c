package decision

// The names of client kinds and answers, for logs and traces. They must not change: programs search for them.
var (
	kindNames = [...]string{
		Program: "program", Navigation: "navigation", SelfNavigation: "self_navigation", Subresource: "subresource",
	}
	// An answer to a program has the same name as the corresponding page; the client kind tells them
	// apart.
	answerNames = [...]string{
		Proxy: "proxy", SendOutdated: "outdated", ShowOutdated: "outdated", SendCrossOrigin: "cross_origin",
		SendMisdirected: "misdirected", ShowMisdirected: "misdirected", SendOtherHost: "other_host",
		RedirectToHost: "other_host", SendUnpublished: "unpublished", ShowUnpublished: "unpublished",
		SendNoListener: "no_listener", ShowNoListener: "no_listener", RedirectByName: "by_name",
		SendUnavailable: "unavailable", ShowUnavailable: "unavailable", SendUnauthorized: "unauthorized",
		ShowLogin: "unauthorized", SendBadToken: "bad_token", SendScopeMissing: "scope_missing",
		SendNotFound: "not_found", ShowNotFound: "not_found", SendFailed: "failed", ShowFailed: "failed",
		SendAsleep: "asleep", ShowAsleep: "asleep", SendPutToSleep: "asleep", ShowPutToSleep: "asleep", SendOverload: "overload", SendOverShare: "over_share",
		SendLimit: "limit", ShowLimit: "limit", SendBadGateway: "bad_gateway", ShowBadGateway: "bad_gateway",
		SendTooEarly: "too_early", SendBadBody: "bad_body",
		ShowWake: "wake_page",
	}
)

// String returns the name of the kind.
func (k ClientKind) String() string { return kindNames[k] }

// String returns the name of the answer.
func (a Answer) String() string { return answerNames[a] }
