package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// undefinedTable is PostgreSQL's code for a table that does not exist.
const undefinedTable = "42P01"

// inWords turns an error of the packages below into a sentence that tells the person at the command line what to do.
func inWords(err error, args []string) error {
	var invalid *auth.InvalidError
	var pg *pgconn.PgError
	var stopped *gc.CircuitBreakerError
	switch {
	case errors.As(err, &stopped):
		return fmt.Errorf("%w: --dry-run lists them; if all is right, --force runs one collection all the same, and with --unknown "+
			"it deletes these archives too", err)
	case errors.Is(err, auth.ErrUserExists):
		return fmt.Errorf("there is a user %q already; to change the password: caddy codehub user passwd %[1]s",
			args[0])
	case errors.Is(err, auth.ErrNoUser):
		return fmt.Errorf("there is no user %q; to see who there is: caddy codehub user list", args[0])
	case errors.Is(err, auth.ErrLastAdministrator):
		return fmt.Errorf("%s is the last administrator who can sign in; add another one before: "+
			"caddy codehub user add NAME --admin", args[0])
	case errors.Is(err, service.ErrNotFound):
		return errors.New("there is no workspace with this id; the id is part of its address")
	case errors.Is(err, service.ErrOperationInProgress):
		return errors.New("an operation is in progress for this workspace: wait until it has ended " +
			"(caddy codehub workspace explain ID), then run this again")
	case errors.Is(err, service.ErrInventoryUnknown):
		return fmt.Errorf("%w; it must be known before a choice is made: check the settings of the backend "+
			"(docker host, or kubeconfig and context of backend kubernetes) and of s3, "+
			"and run this again when both answer", err)
	case errors.Is(err, service.ErrCollected):
		return errors.New("it is too late: the files of this workspace are being deleted, or are gone")
	case errors.As(err, &invalid):
		return fmt.Errorf("the %s %s", strings.Replace(invalid.Field, "username", "user name", 1), invalid.Problem)
	case errors.As(err, &pg) && pg.Code == undefinedTable:
		return errors.New("this database has no users yet: is it the right one? To prepare it: caddy codehub migrate")
	}
	return err
}
