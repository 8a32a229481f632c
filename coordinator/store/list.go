package store

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Order is what a list is sorted by.
type Order string

// The orders. Workspaces with equal values are in the order of their ids. A workspace that was never used, or
// whose home was never measured, comes before all others.
const (
	ByCreation Order = "created_at"
	ByDeletion Order = "deleted_at"
	ByUse      Order = "last_access_at"
	ByName     Order = "name"
	ByPhase    Order = "phase"
	BySize     Order = "home_bytes"
)

// kind is a type of values that lists are sorted by.
type kind struct {
	// key returns the SQL that converts an expression's value to text. value is the SQL that converts the text @key
	// back to a value.
	key   func(expression string) string
	value string
	// takes reports whether a text is the text of a value of this kind. The text may come from outside.
	takes func(key string) bool
}

var (
	aTime = kind{
		func(e string) string { return `(extract(epoch FROM ` + e + `) * 1000000)::bigint::text` },
		`'epoch'::timestamptz + @key::text::bigint * interval '1 microsecond'`,
		func(key string) bool {
			n, err := strconv.ParseInt(key, 10, 64)
			return err == nil && n >= 0 && n < maxMicroseconds
		},
	}
	aNumber = kind{
		func(e string) string { return e + `::text` }, `@key::text::bigint`,
		func(key string) bool { _, err := strconv.ParseInt(key, 10, 64); return err == nil },
	}
	aText = kind{
		func(e string) string { return e }, `@key::text`,
		postgres.Takes,
	}
)

// maxMicroseconds is the end of the year 9999; no real time comes near it.
const maxMicroseconds = 253_402_300_799_000_000

// orders maps each order to the expression that it compares, which is never NULL.
var orders = map[Order]struct {
	expression string
	kind       kind
}{
	ByCreation: {`created_at`, aTime},
	ByDeletion: {`deleted_at`, aTime},
	ByUse:      {`COALESCE(last_access_at, 'epoch')`, aTime},
	ByName:     {`lower(name)`, aText},
	ByPhase:    {`phase`, aText},
	BySize:     {`COALESCE(home_bytes, -1)`, aNumber},
}

// Takes reports whether the key of a cursor, possibly from outside, is a value of the order.
func (o Order) Takes(key string) bool { return orders[o].kind.takes(key) }

// Known reports whether the order exists.
func (o Order) Known() bool { _, ok := orders[o]; return ok }

// Filter selects the workspaces of a list, and their order.
type Filter struct {
	// Owner is the id of the user whose workspaces they are; empty means all users.
	Owner string
	// OwnerName is the name or the id of the user; empty means all.
	OwnerName string
	// Deleted lists workspaces whose deletion can be undone, instead of those that are not deleted.
	Deleted bool
	// Phases are the accepted phases; none means any. A workspace in ERROR whose error was cleared for a
	// recovery does not count as ERROR here.
	Phases []workspace.Phase
	// Text must occur in the name, the description, the memo or the image, ignoring case, or begin the id;
	// empty means any.
	Text       string
	Order      Order
	Descending bool
}

// Cursor is a position in a list: after the workspace with that ID, whose value in the order is Key.
type Cursor struct {
	Key string
	ID  workspace.ID
}

// Listed is a workspace in a list, with its value in the order. Owner is its owner's name, in lists of several owners.
type Listed struct {
	workspace.Workspace
	Owner string
	Key   string
	// Kept is how many bytes a deleted workspace takes up, in lists of deleted ones.
	Kept int64
}

// Cursor returns the position after l.
func (l Listed) Cursor() Cursor { return Cursor{l.Key, l.ID} }

// List returns at most limit workspaces of a list that follow a cursor; nil is the beginning. Changes between two pages
// neither repeat nor omit a workspace unless they change its value in the order.
func (s *Store) List(ctx context.Context, f Filter, limit int, after *Cursor) ([]Listed, error) {
	sql, args := f.statement(limit, after)
	return postgres.Select(ctx, s.DB, "listing workspaces", scanListed, sql, args)
}

// ownersName is the column with the owner's name, present only in lists of several owners.
const ownersName = `(SELECT username FROM users u WHERE u.id = owner_user_id)`

// statement returns the statement of [Store.List]. Few exist: one for each order and set of conditions.
func (f Filter) statement(limit int, after *Cursor) (sql string, args postgres.Args) {
	order := orders[f.Order]
	direction, follows := ` ASC`, ` > `
	if f.Descending {
		direction, follows = ` DESC`, ` < `
	}
	var where []string
	args = postgres.Args{"limit": limit}
	owner, kept := ownersName, `0`
	add := func(condition, name string, value any) {
		where = append(where, condition)
		args[name] = value
	}
	if f.Deleted {
		where = append(where, undeletable)
		kept = keptBytes
	} else {
		where = append(where, `deleted_at IS NULL`)
	}
	if f.Owner != "" {
		add(`owner_user_id = @owner`, "owner", f.Owner)
		owner = `NULL`
	}
	if f.OwnerName != "" {
		add(`owner_user_id IN (SELECT id FROM users WHERE lower(username) = lower(@owner_name) OR id::text = lower(@owner_name))`,
			"owner_name", f.OwnerName)
	}
	if len(f.Phases) > 0 {
		add(`phase = ANY(@phases) AND (phase <> 'ERROR' OR error_reason IS NOT NULL)`, "phases", f.Phases)
	}
	if f.Text != "" {
		add(`(name ILIKE @text OR description ILIKE @text OR memo ILIKE @text OR image_ref ILIKE @text OR id::text LIKE @prefix)`,
			"text", "%"+like.Replace(f.Text)+"%")
		args["prefix"] = like.Replace(strings.ToLower(f.Text)) + "%"
	}
	if after != nil {
		add(`(`+order.expression+`, id)`+follows+`(`+order.kind.value+`, @id::uuid)`, "key", after.Key)
		args["id"] = string(after.ID)
	}
	return `SELECT ` + workspaceColumns + `, ` + order.kind.key(order.expression) + ` AS key, ` + owner + ` AS owner, ` + kept + `::bigint AS kept
		FROM workspaces WHERE ` + strings.Join(where, ` AND `) + `
		ORDER BY ` + order.expression + direction + `, id` + direction + ` LIMIT @limit`, args
}

// like escapes a text so that LIKE takes it literally.
var like = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func scanListed(from pgx.CollectableRow) (Listed, error) {
	r, err := postgres.RowToStruct[struct {
		row
		Key, Owner string
		Kept       int64
	}](from)
	r.Home = r.HomeSize
	return Listed{r.Workspace, r.Owner, r.Key, r.Kept}, err
}
