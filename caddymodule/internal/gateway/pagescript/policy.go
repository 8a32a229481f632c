package pagescript

import "strings"

// policy is one Content-Security-Policy: the lower-case names of its directives, and their
// values as they were sent.
type policy map[string][]string

// parsePolicies parses header lines, each of which may hold several policies.
func parsePolicies(lines []string) []policy {
	var all []policy
	for _, line := range lines {
		for text := range strings.SplitSeq(line, ",") {
			p := make(policy)
			for directive := range strings.SplitSeq(text, ";") {
				words := strings.Fields(directive)
				if len(words) == 0 {
					continue
				}
				name := strings.ToLower(words[0])
				if _, repeated := p[name]; !repeated { // browsers ignore the second one
					p[name] = words[1:]
				}
			}
			if len(p) > 0 {
				all = append(all, p)
			}
		}
	}
	return all
}

// allowed reports whether every policy allows our script to run and to send requests to the page's own origin. The
// script is a file from that origin, and its tag has the nonce.
//
// Policies in the document itself need no check: they apply to what follows them, and the script comes first. If one
// keeps the script from reporting, the page's requests count as use (package tabs).
func allowed(lines []string, secure bool) (nonce string, ok bool) {
	if len(lines) == 0 {
		return "", true
	}
	all := parsePolicies(lines)
	candidates := []string{""}
	for _, p := range all {
		for _, source := range p.first("script-src-elem", "script-src", "default-src") {
			if n, isNonce := nonceOf(source); isNonce {
				candidates = append(candidates, n)
			}
		}
	}
	for _, nonce := range candidates {
		ok := true
		for _, p := range all {
			ok = ok && p.allows(nonce, secure)
		}
		if ok {
			return nonce, true
		}
	}
	return "", false
}

// allows is [allowed] for one policy.
func (p policy) allows(nonce string, secure bool) bool {
	if p.isolates() {
		return false
	}
	script := p.first("script-src-elem", "script-src", "default-src")
	if script != nil && !(nonce != "" && hasNonce(script, nonce)) && (has(script, "'strict-dynamic'") || !matchesSelf(script, secure)) {
		return false
	}
	connect := p.first("connect-src", "default-src")
	return connect == nil || matchesSelf(connect, secure)
}

// isolates reports whether the document is in a sandbox without scripts, or with an origin of its own.
func (p policy) isolates() bool {
	sandbox, ok := p["sandbox"]
	return ok && !(has(sandbox, "allow-scripts") && has(sandbox, "allow-same-origin"))
}

// first returns the sources of the first of these directives that the policy has, nil if it has none.
func (p policy) first(names ...string) []string {
	for _, name := range names {
		if sources, ok := p[name]; ok {
			return append([]string{}, sources...) // not nil, even when it is empty
		}
	}
	return nil
}

// matchesSelf reports whether the sources match the page's own origin without naming a host: the
// author of a policy in a workspace does not know its host.
func matchesSelf(sources []string, secure bool) bool {
	return has(sources, "'self'") || has(sources, "*") || has(sources, "http:") || secure && has(sources, "https:")
}

// has reports whether a keyword is among the sources.
func has(sources []string, keyword string) bool {
	for _, s := range sources {
		if strings.EqualFold(s, keyword) {
			return true
		}
	}
	return false
}

// hasNonce reports whether the sources hold the nonce.
func hasNonce(sources []string, nonce string) bool {
	for _, s := range sources {
		if n, ok := nonceOf(s); ok && n == nonce {
			return true
		}
	}
	return false
}

// nonceOf returns the nonce in a source. It reports false if the source is no nonce, or if the nonce has characters
// that would have to be escaped in a tag.
func nonceOf(source string) (string, bool) {
	const prefix = "'nonce-"
	if len(source) <= len(prefix)+1 || !strings.EqualFold(source[:len(prefix)], prefix) || source[len(source)-1] != '\'' {
		return "", false
	}
	nonce := source[len(prefix) : len(source)-1]
	return nonce, !strings.ContainsAny(nonce, `"'<>&`)
}
