package codehub

import (
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
)

// headerRoom is how large, in bytes, the headers of a request may be that carries all the
// cookies that a page can plant. These are about 180 for a domain, of 4 kB each. A server that refuses
// them (431) never gets to delete them (site.Address.ClearPlanted). It is what Go's servers take
// unless they are told otherwise.
const headerRoom = 1 << 20

// warnOfHeaderLimits says which of the servers refuse headers of that size.
func warnOfHeaderLimits(servers []servedBy, logger *zap.Logger) {
	for _, server := range servers {
		if server.MaxHeaderBytes < headerRoom {
			logger.Warn("cookies that a page of a workspace sets for the whole domain can lock its user out, "+
				"because this server refuses large headers (431); "+
				"write `servers { max_header_size 1MiB }` into the global options",
				zap.String(logkey.Server, server.Name()), zap.Strings(logkey.Listen, server.Listen),
				zap.Int(logkey.MaxHeaderSize, server.MaxHeaderBytes), zap.Int(logkey.Needed, headerRoom))
		}
	}
}
