package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
)

// descriptionTag is the entity tag of the description.
var descriptionTag = sync.OnceValue(func() string {
	sum := sha256.Sum256(openapi.JSON)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
})

// description is GET /openapi.json: the OpenAPI description of this API. It needs no sign-in, because it
// is the same for every installation of this release.
func (c *call) description() error {
	c.fromMemory = true
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", descriptionTag())
	http.ServeContent(c.w, c.r, "", time.Time{}, bytes.NewReader(openapi.JSON))
	return nil
}

// apiPage is GET /api: the description for people. It needs no sign-in either.
func (h *Handler) apiPage(w http.ResponseWriter, r *http.Request) error {
	at := h.Site.Parse(r)
	return h.pages.ShowAPI(w, r, at.MainOrigin())
}
