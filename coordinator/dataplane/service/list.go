package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Page sizes of [Service.List].
const (
	DefaultPage = 100
	MaxPage     = 500
)

// MaxSearch is the greatest number of characters of [ListOptions.Text].
const MaxSearch = 200

// ListOptions say what a list has. The zero value lists the actor's own workspaces that are not
// deleted, newest first.
type ListOptions struct {
	// All lists those of all users. Only administrators may set it ([ErrForbidden]).
	All bool
	// Owner is the name or the id of the user whose workspaces are listed, with All only.
	Owner string
	// Deleted lists those whose deletion can be undone instead.
	Deleted bool
	// Phases are those of which they have one, ERROR without those that are being recovered. None
	// means any.
	Phases []workspace.Phase
	// Text is in the name, the description, the memo or the image, or begins the id.
	Text string
	// Sort is an order of package store, with a minus before it for a descending one. The default
	// is -created_at, and -deleted_at for those that are deleted.
	Sort string
}

// Phases are those by which a list can be filtered.
var Phases = []workspace.Phase{
	workspace.PhasePending, workspace.PhaseArchived, workspace.PhaseStandby, workspace.PhaseRunning,
	workspace.PhaseError, workspace.PhaseDeleting,
}

// filter returns what the store lists for the actor.
func (o ListOptions) filter(a Actor) (store.Filter, error) {
	f := store.Filter{Owner: a.UserID, OwnerName: o.Owner, Deleted: o.Deleted, Phases: o.Phases, Text: o.Text}
	if o.All {
		f.Owner = ""
	} else if o.Owner != "" {
		return f, &InvalidError{"owner", words.Of("problem.rule.owner_of_all", nil)}
	}
	for _, p := range o.Phases {
		if !slices.Contains(Phases, p) {
			return f, &InvalidError{"phase", words.Of("problem.rule.phase", words.Values{"Given": string(p)})}
		}
	}
	for field, text := range map[string]string{"q": o.Text, "owner": o.Owner} {
		if !postgres.Takes(text) {
			return f, &InvalidError{field, words.Of("problem.rule.utf8", nil)}
		}
		if n := utf8.RuneCountInString(text); n > MaxSearch {
			return f, &InvalidError{field, words.Of("problem.rule.at_most", words.Values{"Max": MaxSearch, "Given": n})}
		}
	}
	order, descending := strings.CutPrefix(o.Sort, "-")
	f.Order, f.Descending = store.Order(order), descending
	switch {
	case o.Sort == "" && o.Deleted:
		f.Order, f.Descending = store.ByDeletion, true
	case o.Sort == "":
		f.Order, f.Descending = store.ByCreation, true
	case !f.Order.Known(), f.Order == store.ByDeletion && !o.Deleted:
		return f, &InvalidError{"sort", words.Of("problem.rule.sort", nil)}
	}
	return f, nil
}

// List returns at most limit workspaces. A limit of 0 means [DefaultPage]. next is the cursor of the
// following page, or empty at the end. It returns [*InvalidError] for a limit outside 0 to [MaxPage],
// for options that are not valid, and for a cursor that it has not returned for these options.
func (s *Service) List(ctx context.Context, a Actor, o ListOptions, limit int, cursor string) (
	items []store.Listed, next string, err error) {
	if o.All && !a.Admin {
		return nil, "", ErrForbidden
	}
	f, err := o.filter(a)
	if err != nil {
		return nil, "", err
	}
	if limit, err = pageSize(limit); err != nil {
		return nil, "", err
	}
	after, err := parseCursor(cursor, f)
	if err != nil {
		return nil, "", err
	}
	if !o.All && uuid.Validate(a.UserID) != nil {
		return nil, "", nil
	}
	// One more than asked for tells whether another page follows.
	items, err = s.store.List(ctx, f, limit+1, after)
	if err != nil {
		return nil, "", err
	}
	if len(items) > limit {
		items = items[:limit]
		next = formatCursor(items[limit-1].Cursor(), f)
	}
	return items, next, nil
}

// pageSize checks the size of a page. Zero means [DefaultPage].
func pageSize(limit int) (int, error) {
	if limit < 0 || limit > MaxPage {
		return 0, &InvalidError{"limit", words.Of("problem.rule.from_1", words.Values{"Max": MaxPage})}
	}
	return cmp.Or(limit, DefaultPage), nil
}

// cursor is what the text of a cursor holds: a place, and of which list.
type cursor struct {
	List uint32 `json:"l"`
	store.Cursor
}

// list is a number for a filter and its order: a cursor of another list is refused.
func list(f store.Filter) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%+v", f)
	return h.Sum32()
}

func formatCursor(c store.Cursor, f store.Filter) string {
	text, _ := json.Marshal(cursor{list(f), c}) // a number and two texts
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor returns nil for the empty cursor, which is the first page. A cursor comes from outside:
// what this function accepts is safe in a query.
func parseCursor(text string, f store.Filter) (*store.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	invalid := &InvalidError{"cursor", words.Of("problem.rule.cursor", nil)}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, invalid
	}
	var c cursor
	if json.Unmarshal(raw, &c) != nil || c.List != list(f) || !f.Order.Takes(c.Key) {
		return nil, invalid
	}
	if c.ID, err = workspace.ParseID(string(c.ID)); err != nil {
		return nil, invalid
	}
	return &c.Cursor, nil
}

// Position returns how far the database is, for [Service.ChangedSince].
func (s *Service) Position(ctx context.Context) (store.Position, error) { return s.store.Position(ctx) }

// ChangedSince returns what has changed of the actor's own workspaces since a position, as
// [store.Store.OwnedSince] says, deleted ones included.
func (s *Service) ChangedSince(ctx context.Context, a Actor, p store.Position, after workspace.ID, limit int) (
	[]workspace.Workspace, error,
) {
	return s.store.OwnedSince(ctx, a.UserID, p, after, limit)
}

// Several returns the workspaces of ids, whoever's they are, without those that do not exist.
func (s *Service) Several(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error) {
	return s.store.Workspaces(ctx, ids)
}
