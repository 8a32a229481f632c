package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// This file, deletion.go and recovery.go hold every statement that writes
// desired_state and deleted_at. Only package service calls them (SPEC 1, contract 3).
// Each records what it changes in the history, with who asked, in the same statement. What people and
// programs ask for it records in the audit, too (SPEC 13).

// Outcome is what a statement that changes the desired state did, or why it did
// nothing.
type Outcome string

// The outcomes.
const (
	// Changed: the desired state was written.
	Changed Outcome = "changed"
	// Unchanged: there was nothing to change.
	Unchanged Outcome = "unchanged"
	// Busy: an operation is in progress.
	Busy Outcome = "busy"
	// Stale: the workspace has changed since the caller has read it.
	Stale Outcome = "stale"
	// Overtaken: a user or a program has asked for another state after this change was asked for.
	Overtaken Outcome = "overtaken"
	// Collected: nothing is left of the workspace, or the garbage collector deletes it.
	Collected Outcome = "collected"
	// Forbidden means that only a viewer who sees all may do it.
	Forbidden Outcome = "forbidden"
	// UserLimit and GlobalLimit: one more workspace would exceed the limit.
	UserLimit   Outcome = "user_limit"
	GlobalLimit Outcome = "global_limit"
	// Taken: another user's workspace has the id.
	Taken Outcome = "taken"
	// WorkspaceLimit: the user has as many workspaces as one may have.
	WorkspaceLimit Outcome = "workspace_limit"
)

// Limits bound the workspaces that are running or have that desired state (SPEC 5), of one user and
// in all. Workspaces bounds those of one user in any state but deleted. Dozing bounds those that doze,
// which do not count as running. Zero and negative values mean no limit. A user's own limits take
// precedence.
type Limits struct {
	PerUser, Global, Workspaces int
	Dozing                      DozingLimits
}

// DozingLimits bound the workspaces that doze, of one user and in all.
type DozingLimits struct{ PerUser, Global int }

// LimitsOf returns the limits of the owner of workspace id, or of the user userID if there is none
// with that id. They are the user's own where there are such, else those of l.
func (s *Store) LimitsOf(ctx context.Context, l Limits, userID string, id workspace.ID) (Limits, error) {
	err := s.pool.QueryRow(ctx, `
		SELECT COALESCE(max_running, $1), COALESCE(max_workspaces, $2) FROM users
		WHERE id = COALESCE((SELECT owner_user_id FROM workspaces WHERE id = $4), $3)`,
		l.PerUser, l.Workspaces, postgres.NullText(userID), postgres.NullText(id)).Scan(&l.PerUser, &l.Workspaces)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return l, fmt.Errorf("reading a user's limits: %w", err)
	}
	return l, nil
}

// Viewer is the user on whose behalf a row is read or changed: its owner, or an
// administrator when All is set.
type Viewer struct {
	// UserID is the id of the user whose workspaces are visible.
	UserID string
	// All makes every workspace visible, deleted ones included.
	All bool
	// Deleted makes the user's own deleted workspaces visible to [Store.Get] for as long
	// as their deletion can be undone.
	Deleted bool
	// Through is the cause in the history.
	Through audit.Through
	// IfRevision are the revisions of which the workspace must have one to be changed; nil allows any. Reading
	// ignores it.
	IfRevision []int64
}

// Edit is a change of one workspace by its user; nil fields keep their values.
type Edit struct {
	Name, Description, Memo, ImageRef *string
	Favourite                         *bool
	Desired                           *workspace.DesiredState
	// Input says that a person in the workspace asks for it to go on: that is the person's input, too.
	Input bool
	// Asked is how long ago the change was asked for, where that is repeated until it is granted. A request for another state than
	// RUNNING that came later wins. 0: now.
	Asked time.Duration
}

// fields are the names of the columns that the edit gives, without their values: a memo may hold anything.
func (e Edit) fields() []string {
	names := []string{}
	if e.Favourite != nil {
		names = append(names, "favourite")
	}
	for _, f := range [...]struct {
		name  string
		value *string
	}{{"name", e.Name}, {"description", e.Description}, {"memo", e.Memo}, {"image_ref", e.ImageRef}} {
		if f.value != nil {
			names = append(names, f.name)
		}
	}
	return names
}

// tooMany is the case for one more workspace of w.owner_user_id in any state, of which
// a limited number may be there. It must run like overLimit.
const tooMany = `
		WHEN ` + ownWorkspaces + ` > 0 AND ` + ownWorkspaces + ` <= (SELECT count(*) FROM workspaces c
			WHERE c.deleted_at IS NULL AND c.owner_user_id = w.owner_user_id) THEN 'workspace_limit'`

// busy is the condition under which a change of the desired state is refused (SPEC 1, contract 4). One is
// not while the operation in progress waits for what others must give: the controller then ends it if it
// does not lead to the new state.
const busy = `operation <> 'NONE' AND waiting IS NULL`

// overtaken selects w where a user or a program has asked for sleep or the archive less than @asked ago. What the system does by
// itself, such as the TTL runner, overtakes nobody (SPEC 8).
const overtaken = `EXISTS (SELECT FROM workspace_history h WHERE h.workspace_id = w.id AND h.kind = 'desired_state'
			AND h.new_value <> 'RUNNING' AND h.at > now() - @asked::interval
			AND h.cause NOT IN ('ttl', 'disk', 'memory', 'limits'))`

// stale says that a workspace has none of the revisions @if_revision, of [Viewer]. Every statement that somebody asks for checks it.
const stale = `(revision <> ALL(@if_revision::bigint[])) IS TRUE`

// updateSQL decides and writes in one statement. It locks the row before it decides,
// so the outcome is about the row that it writes. To ask one to run that dozes is a change and a
// use: it needs a place again, and its container goes on.
const updateSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, operation, waiting, desired_state, counted, revision,
		doze_at IS NOT NULL AND @desired::text = 'RUNNING' AS thaws
	FROM workspaces
	WHERE id = @id AND deleted_at IS NULL AND (@all OR owner_user_id = @user)
	FOR UPDATE
), decision AS (
	SELECT id, desired_state AS was, thaws, CASE
		WHEN ` + stale + ` THEN 'stale'
		WHEN @desired::text IS NULL OR @desired = desired_state AND NOT thaws THEN 'unchanged'
		WHEN @asked::interval > '0' AND ` + overtaken + ` THEN 'overtaken'
		WHEN ` + busy + ` THEN 'busy'
		WHEN @desired <> 'RUNNING' OR counted THEN 'changed'` + overLimit + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET
		name = COALESCE(@name, name),
		description = CASE WHEN @description::text IS NULL THEN description ELSE NULLIF(@description, '') END,
		memo = CASE WHEN @memo::text IS NULL THEN memo ELSE NULLIF(@memo, '') END,
		image_ref = CASE WHEN @image_ref::text IS NULL THEN image_ref ELSE NULLIF(@image_ref, '') END,
		favourite = COALESCE(@favourite::boolean, favourite),
		desired_state = CASE outcome WHEN 'changed' THEN @desired ELSE desired_state END,
		origin = CASE WHEN outcome = 'changed' AND NOT thaws THEN @origin::jsonb ELSE origin END,
		doze_at = CASE outcome WHEN 'changed' THEN NULL ELSE doze_at END,
		counted = counted OR outcome = 'changed' AND thaws,
		last_access_at = CASE WHEN outcome = 'changed' AND thaws THEN now() ELSE last_access_at END,
		last_input_at = CASE WHEN outcome = 'changed' AND thaws AND @input THEN now() ELSE last_input_at END
	FROM decision
	WHERE workspaces.id = decision.id
		AND (outcome = 'changed'
			OR (outcome = 'unchanged' AND COALESCE(@name, @description, @memo, @image_ref, @favourite::boolean::text) IS NOT NULL))
	RETURNING workspaces.id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, cause, user_id)
	SELECT id, CASE WHEN thaws THEN 'thawed' ELSE 'desired_state' END, CASE WHEN NOT thaws THEN was END,
		CASE WHEN NOT thaws THEN @desired END, @cause, @user
	FROM decision WHERE outcome = 'changed'
), audit AS (
	` + audit.OfWorkspaces + `CASE
		WHEN outcome = 'unchanged' THEN 'workspace.edit'
		WHEN @desired = 'ARCHIVED' THEN 'workspace.archive' WHEN @desired = 'STANDBY' THEN 'workspace.sleep'
		WHEN @cause = 'gateway' THEN 'workspace.open' ELSE 'workspace.start' END,
		CASE WHEN @fields::text[] <> '{}' THEN jsonb_build_object('fields', @fields) END
	FROM written JOIN w USING (id) JOIN decision USING (id)
)
SELECT outcome FROM decision`

// Update makes the change and returns the workspace afterwards. It returns
// [ErrNotFound] for a workspace that is deleted or that v may not see. With any
// outcome but [Changed] and [Unchanged], nothing was written.
func (s *Store) Update(ctx context.Context, v Viewer, id workspace.ID, e Edit, l Limits) (
	workspace.Workspace, Outcome, error) {
	var desired *string
	if e.Desired != nil {
		desired = postgres.NullText(*e.Desired)
	}
	running := e.Desired != nil && *e.Desired == workspace.DesiredRunning
	w, outcome, err := s.change(ctx, running, id, updateSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "id": string(id), "all": v.All, "user": postgres.NullText(v.UserID),
		"cause": v.Through, "desired": desired, "input": e.Input, "asked": e.Asked,
		"name": e.Name, "description": e.Description, "memo": e.Memo, "image_ref": e.ImageRef,
		"favourite":   e.Favourite,
		"if_revision": v.IfRevision, "origin": tracing.Origin(ctx), "by": audit.Of(ctx), "fields": e.fields(),
	})
	if err != nil {
		return w, outcome, fmt.Errorf("changing workspace %s: %w", id, err)
	}
	return w, outcome, nil
}

const createSQL = `
WITH w AS (
	SELECT @owner::uuid AS owner_user_id
), decision AS (
	SELECT owner_user_id, CASE
		WHEN EXISTS (SELECT FROM workspaces o WHERE o.id = @id AND o.owner_user_id = w.owner_user_id) THEN 'unchanged'
		WHEN EXISTS (SELECT FROM workspaces WHERE id = @id) THEN 'taken'` + tooMany + `
		WHEN @desired <> 'RUNNING' THEN 'changed'` + overLimit + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	INSERT INTO workspaces (id, owner_user_id, name, description, memo, image_ref, git_url, desired_state,
		instance_backend, storage_backend, home_store_key, origin)
	SELECT @id, owner_user_id, @name, @description, @memo, @image_ref, @git_url, @desired,
		@instance_backend, @storage_backend, @home_store_key, @origin
	FROM decision WHERE outcome = 'changed'
	RETURNING id, name, owner_user_id, desired_state
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, new_value, cause, user_id)
	SELECT id, 'created', desired_state, @cause, owner_user_id FROM written
), audit AS (
	` + audit.OfWorkspaces + `'workspace.create', jsonb_build_object('desired_state', desired_state) FROM written
)
SELECT outcome FROM decision`

// Create adds a workspace. It uses only the fields of w that identify and describe it, and its
// desired state, RUNNING if it has none. With [Unchanged] the owner had a workspace of that id, which it returns, perhaps a
// deleted one. With [Taken] another user has it, such as one for whom it was adopted. With any outcome but [Changed], nothing was written.
func (s *Store) Create(ctx context.Context, w workspace.Workspace, through audit.Through, l Limits) (
	workspace.Workspace, Outcome, error) {
	w, outcome, err := s.change(ctx, true, w.ID, createSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "workspaces": l.Workspaces, "cause": through,
		"id": string(w.ID), "owner": w.OwnerID, "name": w.Name, "desired": string(cmp.Or(w.DesiredState, workspace.DesiredRunning)),
		"description": postgres.NullText(w.Description), "memo": postgres.NullText(w.Memo),
		"image_ref": postgres.NullText(w.ImageRef), "git_url": postgres.NullText(w.GitURL),
		"instance_backend": w.InstanceBackend, "storage_backend": w.StorageBackend,
		"home_store_key": w.ID.VolumeName(), "origin": tracing.Origin(ctx), "by": audit.Of(ctx),
	})
	if err != nil {
		return w, outcome, fmt.Errorf("creating a workspace: %w", err)
	}
	return w, outcome, nil
}

// expireStandbySQL changes the desired state if the condition still holds.
const expireStandbySQL = `
WITH written AS (
	UPDATE workspaces SET desired_state = 'ARCHIVED' WHERE id = @id AND ` + expiredStandby + ` RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', 'STANDBY', 'ARCHIVED', @message, @cause FROM written
)
SELECT FROM written`

// ExpireStandby sets the desired state ARCHIVED if the workspace still meets the condition
// of [Store.ExpiredStandby], and reports whether it did. False means that the workspace was
// opened or changed in the meantime. through is what the history names as the cause, why
// goes there if it is not empty.
func (s *Store) ExpireStandby(ctx context.Context, id workspace.ID, ttl time.Duration, through audit.Through, why string) (
	bool, error) {
	tag, err := s.pool.Exec(ctx, expireStandbySQL, postgres.Args{
		"id": string(id), "ttl": ttl, "cause": through, "message": postgres.NullText(why),
	})
	if err != nil {
		return false, fmt.Errorf("expiring workspace %s: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// sleepSQL puts a workspace to sleep of which all that was judged still holds.
const sleepSQL = `
WITH written AS (
	UPDATE workspaces SET desired_state = 'STANDBY'
	WHERE id = @id AND ` + runs + ` AND ` + usedAt + ` <= @unused_since AND sleep_at <= now() RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', 'RUNNING', 'STANDBY', @message, 'ttl' FROM written
)
SELECT FROM written`

// Sleep sets the desired state STANDBY if the workspace still runs, was not used after
// unusedSince, and has been announced to sleep by now. It reports whether it did. The text why
// goes to the history if it is not empty.
func (s *Store) Sleep(ctx context.Context, id workspace.ID, ttl time.Duration, unusedSince time.Time, why string) (
	bool, error) {
	tag, err := s.pool.Exec(ctx, sleepSQL, postgres.Args{
		"id": string(id), "ttl": ttl, "unused_since": unusedSince, "message": postgres.NullText(why),
	})
	if err != nil {
		return false, fmt.Errorf("putting workspace %s to sleep: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// sleepForMemorySQL puts a workspace to sleep that still dozes.
const sleepForMemorySQL = `
WITH written AS (
	UPDATE workspaces SET desired_state = 'STANDBY' WHERE id = @id AND ` + dozing + ` RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', 'RUNNING', 'STANDBY', @message, @cause FROM written
)
SELECT FROM written`

// SleepForMemory sets the desired state STANDBY if the workspace still meets the condition of
// [Store.LongestDozing], and reports whether it did. through is what the history names as the cause, and
// why goes there, too.
func (s *Store) SleepForMemory(ctx context.Context, id workspace.ID, through audit.Through, why string) (bool, error) {
	tag, err := s.pool.Exec(ctx, sleepForMemorySQL, postgres.Args{
		"id": string(id), "cause": through, "message": postgres.NullText(why),
	})
	if err != nil {
		return false, fmt.Errorf("putting workspace %s to sleep to free memory: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}
