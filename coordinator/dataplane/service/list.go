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

// MaxSearch is the maximum length of [ListOptions.Text], in characters.
const MaxSearch = 200

// ListOptions select and order the workspaces of a list. The zero value lists the actor's own workspaces that are not
// deleted, newest first.
type ListOptions struct {
	// All lists the workspaces of all users. Only administrators may set it ([ErrForbidden]).
	All bool
	// Owner is the name or the id of the user whose workspaces are listed. It needs All.
	Owner string
	// Deleted lists workspaces whose deletion can be undone instead.
	Deleted bool
	// Phases selects workspaces in one of these phases; ERROR does not include those that are being recovered. Empty
	// means any.
	Phases []workspace.Phase
	// Text must occur in the name, the description, the memo or the image, or begin the id.
	Text string
	// Sort is the name of an order of package store; a leading minus reverses the order. The default is -created_at, or
	// -deleted_at for deleted workspaces.
	Sort string
}

// Phases are the phases that can be selected.
var Phases = []workspace.Phase{
	workspace.PhasePending, workspace.PhaseArchived, workspace.PhaseStandby, workspace.PhaseRunning,
	workspace.PhaseError, workspace.PhaseDeleting,
}

// filter returns the store's filter for the actor.
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

// List returns at most limit workspaces. A limit of 0 means [DefaultPage]. next is the cursor of the following page,
// empty at the end. List returns [*InvalidError] for a limit outside 0 to [MaxPage], for invalid options, and for a
// cursor of another list.
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
	// One more than limit tells whether another page follows.
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

// cursor is the decoded text of a cursor: a place, and the list that it belongs to.
type cursor struct {
	List uint32 `json:"l"`
	store.Cursor
}

// list identifies a filter and its order: a cursor of another list is refused.
func list(f store.Filter) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%+v", f)
	return h.Sum32()
}

func formatCursor(c store.Cursor, f store.Filter) string {
	text, _ := json.Marshal(cursor{list(f), c}) // a number and two texts
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor returns nil for the empty cursor, which is the first page. A cursor comes from outside: any cursor that
// parseCursor accepts is safe in a query.
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

// Position returns the position of the database, for [Service.ChangedSince].
func (s *Service) Position(ctx context.Context) (store.Position, error) { return s.store.Position(ctx) }

// ChangedSince returns the actor's own workspaces that have changed since a position, including deleted ones; see
// [store.Store.OwnedSince].
func (s *Service) ChangedSince(ctx context.Context, a Actor, p store.Position, after workspace.ID, limit int) (
	[]workspace.Workspace, error,
) {
	return s.store.OwnedSince(ctx, a.UserID, p, after, limit)
}

// Several returns the workspaces with these ids, of any user, without those that do not exist.
func (s *Service) Several(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error) {
	return s.store.Workspaces(ctx, ids)
}
