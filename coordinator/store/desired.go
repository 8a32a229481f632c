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

// This file, deletion.go and recovery.go hold every statement that writes desired_state and deleted_at. Only
// package service calls them (SPEC 1, contract 3). Each statement also records its change and the requester in the
// history. Changes that people and programs request are also recorded in the audit (SPEC 13).

// Outcome is what a statement that changes the desired state did, or why it did nothing.
type Outcome string

// The outcomes.
const (
	// Changed: the desired state was written.
	Changed Outcome = "changed"
	// Unchanged: there was nothing to change.
	Unchanged Outcome = "unchanged"
	// Busy: an operation is in progress.
	Busy Outcome = "busy"
	// Stale: the workspace has changed since the caller read it.
	Stale Outcome = "stale"
	// Overtaken: a user or a program has requested another state after this change was requested.
	Overtaken Outcome = "overtaken"
	// Collected: nothing is left of the workspace, or the garbage collector is deleting it.
	Collected Outcome = "collected"
	// Forbidden: only a viewer who sees all may do it.
	Forbidden Outcome = "forbidden"
	// UserLimit and GlobalLimit: one more workspace would exceed the limit.
	UserLimit   Outcome = "user_limit"
	GlobalLimit Outcome = "global_limit"
	// Taken: another user's workspace has the id.
	Taken Outcome = "taken"
	// WorkspaceLimit: the user already has the maximum number of workspaces.
	WorkspaceLimit Outcome = "workspace_limit"
)

// Limits bound the workspaces that run or whose desired state is RUNNING (SPEC 5), per user and overall.
// Workspaces bounds a user's workspaces in any state but deleted. Dozing bounds the dozing ones, which do not
// count as running. Zero and negative values mean no limit. A user's own limits take precedence.
type Limits struct {
	PerUser, Global, Workspaces int
	Dozing                      DozingLimits
}

// DozingLimits bound the dozing workspaces, per user and overall.
type DozingLimits struct{ PerUser, Global int }

// LimitsOf returns the limits of the owner of workspace id, or of the user userID if no workspace has that id.
// The user's own limits replace those of l.
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

// Viewer is the user on whose behalf a row is read or changed: its owner, or an administrator if All is set.
type Viewer struct {
	// UserID is the id of the user whose workspaces are visible.
	UserID string
	// All makes every workspace visible, deleted ones included.
	All bool
	// Deleted makes the user's own deleted workspaces visible to [Store.Get] for as long as their deletion can
	// be undone.
	Deleted bool
	// Through is the cause in the history.
	Through audit.Through
	// IfRevision are the revisions that allow a change: the workspace must have one of them. nil allows any.
	// Reads ignore it.
	IfRevision []int64
}

// Edit is a change of one workspace by its user; nil fields keep their values.
type Edit struct {
	Name, Description, Memo, ImageRef *string
	Favourite                         *bool
	Desired                           *workspace.DesiredState
	// Input means that a person in the workspace asks for it to resume, which also counts as input of that person.
	Input bool
	// Asked is how long ago the change was requested, for a request that is repeated until it is granted. A later
	// request for a state other than RUNNING wins. 0 means now.
	Asked time.Duration
}

// fields returns the names of the columns that the edit sets, without their values: a memo may contain
// anything.
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

// tooMany is the branch of a CASE that checks the limit on the number of workspaces of w.owner_user_id, in any state,
// before one more is added. It must run like overLimit.
const tooMany = `
		WHEN ` + ownWorkspaces + ` > 0 AND ` + ownWorkspaces + ` <= (SELECT count(*) FROM workspaces c
			WHERE c.deleted_at IS NULL AND c.owner_user_id = w.owner_user_id) THEN 'workspace_limit'`

// busy is the condition under which a change of the desired state is refused (SPEC 1, contract 4). A workspace
// whose operation waits for external resources is not busy: the controller ends that operation if it does not
// lead to the new state.
const busy = `operation <> 'NONE' AND waiting IS NULL`

// overtaken selects w if a user or a program has asked for sleep or the archive less than @asked ago. Changes
// by the system itself, such as by the TTL runner, overtake no request (SPEC 8).
const overtaken = `EXISTS (SELECT FROM workspace_history h WHERE h.workspace_id = w.id AND h.kind = 'desired_state'
			AND h.new_value <> 'RUNNING' AND h.at > now() - @asked::interval
			AND h.cause NOT IN ('ttl', 'disk', 'memory', 'limits'))`

// stale selects a workspace that has none of the revisions @if_revision of [Viewer]. Every requested change
// checks it.
const stale = `(revision <> ALL(@if_revision::bigint[])) IS TRUE`

// updateSQL decides and writes in one statement. It locks the row before it decides, so the outcome is about
// the row that it writes. Requesting RUNNING for a dozing workspace is a change and a use: the workspace needs a place
// again, and its container resumes.
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

// Update makes the change and returns the workspace afterwards. It returns [ErrNotFound] for a workspace that
// is deleted or that v may not see. With any outcome but [Changed] and [Unchanged], nothing was written.
func (s *Store) Update(ctx context.Context, v Viewer, id workspace.ID, e Edit, l Limits) (
	workspace.Workspace, Outcome, error) {
	var desired *string
	if e.Desired != nil {
		desired = postgres.NullText(*e.Desired)
	}
	running := e.Desired != nil && *e.Desired == workspace.DesiredRunning
	return s.change(ctx, "changing workspace "+string(id), running, id, updateSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "id": string(id), "all": v.All, "user": postgres.NullText(v.UserID),
		"cause": v.Through, "desired": desired, "input": e.Input, "asked": e.Asked,
		"name": e.Name, "description": e.Description, "memo": e.Memo, "image_ref": e.ImageRef,
		"favourite":   e.Favourite,
		"if_revision": v.IfRevision, "origin": tracing.Origin(ctx), "by": audit.Of(ctx), "fields": e.fields(),
	})
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

// Create adds a workspace. It uses only the fields of w that identify and describe it, and its desired state,
// which defaults to RUNNING. [Unchanged] means that the owner already had a workspace with that id, perhaps a
// deleted one; Create returns it. [Taken] means that another user has it, for example because it was adopted
// for that user. With any outcome but [Changed], nothing was written.
func (s *Store) Create(ctx context.Context, w workspace.Workspace, through audit.Through, l Limits) (
	workspace.Workspace, Outcome, error) {
	return s.change(ctx, "creating a workspace", true, w.ID, createSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "workspaces": l.Workspaces, "cause": through,
		"id": string(w.ID), "owner": w.OwnerID, "name": w.Name, "desired": string(cmp.Or(w.DesiredState, workspace.DesiredRunning)),
		"description": postgres.NullText(w.Description), "memo": postgres.NullText(w.Memo),
		"image_ref": postgres.NullText(w.ImageRef), "git_url": postgres.NullText(w.GitURL),
		"instance_backend": w.InstanceBackend, "storage_backend": w.StorageBackend,
		"home_store_key": w.ID.VolumeName(), "origin": tracing.Origin(ctx), "by": audit.Of(ctx),
	})
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

// ExpireStandby sets the desired state ARCHIVED if the workspace still meets the condition of
// [Store.ExpiredStandby], and reports whether it did. It returns false if the workspace was opened or changed in the
// meantime. The history names through as the cause, and why as the reason unless it is empty.
func (s *Store) ExpireStandby(ctx context.Context, id workspace.ID, ttl time.Duration, through audit.Through, why string) (
	bool, error) {
	n, err := s.Exec(ctx, "expiring workspace "+string(id), expireStandbySQL, postgres.Args{
		"id": string(id), "ttl": ttl, "cause": through, "message": postgres.NullText(why),
	})
	return n == 1, err
}

// sleepSQL puts a workspace to sleep if nothing changed since the decision.
const sleepSQL = `
WITH written AS (
	UPDATE workspaces SET desired_state = 'STANDBY'
	WHERE id = @id AND ` + runs + ` AND ` + usedAt + ` <= @unused_since AND sleep_at <= now() RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', 'RUNNING', 'STANDBY', @message, 'ttl' FROM written
)
SELECT FROM written`

// Sleep sets the desired state STANDBY if the workspace still runs, was not used after unusedSince, and has
// reached its announced time to sleep. It reports whether it did. The history gets why as the reason unless it
// is empty.
func (s *Store) Sleep(ctx context.Context, id workspace.ID, ttl time.Duration, unusedSince time.Time, why string) (
	bool, error) {
	n, err := s.Exec(ctx, fmt.Sprintf("putting workspace %s to sleep", id), sleepSQL, postgres.Args{
		"id": string(id), "ttl": ttl, "unused_since": unusedSince, "message": postgres.NullText(why),
	})
	return n == 1, err
}

// sleepForMemorySQL puts a workspace to sleep if it still dozes.
const sleepForMemorySQL = `
WITH written AS (
	UPDATE workspaces SET desired_state = 'STANDBY' WHERE id = @id AND ` + dozing + ` RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', 'RUNNING', 'STANDBY', @message, @cause FROM written
)
SELECT FROM written`

// SleepForMemory sets the desired state STANDBY if the workspace still meets the condition of
// [Store.LongestDozing], and reports whether it did. The history names through as the cause and why as the
// reason.
func (s *Store) SleepForMemory(ctx context.Context, id workspace.ID, through audit.Through, why string) (bool, error) {
	n, err := s.Exec(ctx, fmt.Sprintf("putting workspace %s to sleep to free memory", id), sleepForMemorySQL, postgres.Args{
		"id": string(id), "cause": through, "message": postgres.NullText(why),
	})
	return n == 1, err
}
