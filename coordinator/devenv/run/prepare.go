package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/devenv/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// prepare starts servers and builds images and Caddy, at the same time.
func (r *runner) prepare(ctx context.Context) error {
	r.progress.printf("Starting\n")
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return r.progress.step("Caddy", func() (string, error) { return r.buildCaddy(ctx) }) })
	all.Go(func() error {
		if r.settings.database != "" {
			r.databaseURL = r.settings.database
		} else if err := r.progress.step("PostgreSQL", func() (string, error) { return "", r.startPostgreSQL(ctx) }); err != nil {
			return err
		}
		exists, err := adminExists(ctx, r.databaseURL)
		if err != nil {
			return err
		}
		r.password, err = choosePassword(r.dir, r.settings.password, exists)
		return err
	})
	all.Go(func() error {
		if r.settings.redis != "" {
			r.redisURL = r.settings.redis
			return nil
		}
		return r.progress.step("Redis", func() (string, error) { return "", r.startRedis() })
	})
	all.Go(func() error {
		r.s3 = r.settings.s3
		if r.s3.endpoint != "" {
			return nil
		}
		return r.progress.step("S3", func() (string, error) { return "", r.startS3(ctx) })
	})
	all.Go(func() error {
		if err := r.progress.step("Docker engine", func() (string, error) { return r.findEngine(ctx) }); err != nil {
			return err
		}
		if err := r.progress.step("storage job's image", func() (string, error) { return r.buildJobImage(ctx) }); err != nil {
			return err
		}
		return r.progress.step("workspace image", func() (string, error) { return r.chooseImage(ctx) })
	})
	if err := all.Wait(); err != nil {
		return err
	}
	if r.s3Port != 0 && r.reach.jobNetwork == "" && r.reach.jobHost == "" && r.settings.jobEndpoint == "" {
		return errors.New("the Docker engine is a rootless one, whose storage jobs cannot reach a private S3 server; " +
			"set S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY to a store that they can reach, or use another engine")
	}
	return r.state.save(r.dir)
}

func (r *runner) buildCaddy(ctx context.Context) (string, error) {
	var log bytes.Buffer
	result, err := caddybuild.Build(ctx, r.root, &log)
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, log.String())
	}
	if !result.New {
		return "up to date", nil
	}
	return "built from " + caddybuild.Description, nil
}

func (r *runner) startPostgreSQL(ctx context.Context) error {
	sockets, err := server.SocketDir(filepath.Join(r.dir, "run", "postgresql"))
	if err != nil {
		return err
	}
	start := func() (*server.PostgreSQL, error) {
		return server.StartPostgreSQL(filepath.Join(r.dir, "postgresql"), sockets)
	}
	pg, err := start()
	if err != nil {
		return err
	}
	r.servers.keep("PostgreSQL", pg, func() (private, error) { return start() })
	r.databaseURL = pg.DSN(databaseName)
	return pg.CreateDatabase(ctx, databaseName)
}

func (r *runner) startRedis() error {
	sockets, err := server.SocketDir(filepath.Join(r.dir, "run", "redis"))
	if err != nil {
		return err
	}
	start := func() (*server.Redis, error) { return server.StartRedis(filepath.Join(r.dir, "redis"), sockets) }
	redis, err := start()
	if err != nil {
		return err
	}
	r.servers.keep("Redis", redis, func() (private, error) { return start() })
	r.redisURL = redis.URL()
	return nil
}

func (r *runner) startS3(ctx context.Context) error {
	options := server.S3Options{
		Dir: filepath.Join(r.dir, "s3"), AccessKey: r.state.S3AccessKey, SecretKey: r.state.S3SecretKey,
	}
	s3, err := server.StartS3(ctx, options)
	if err != nil {
		return err
	}
	options.Port = s3.Port
	ctx = context.WithoutCancel(ctx) // which ends with prepare
	r.servers.keep("S3", s3, func() (private, error) { return server.StartS3(ctx, options) })
	r.s3Port = s3.Port
	r.s3 = s3Settings{
		endpoint: s3.Endpoint, region: server.S3Region, bucket: cmp.Or(r.settings.s3.bucket, defaultBucket),
		accessKey: s3.AccessKey, secretKey: s3.SecretKey, pathStyle: "true",
	}
	return nil
}

// startEngine starts a private Docker engine and returns its address.
func (r *runner) startEngine(ctx context.Context) (host string, err error) {
	sockets, err := server.SocketDir(filepath.Join(r.dir, "run", "docker"))
	if err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx) // which ends with prepare
	start := func() (*server.Engine, error) {
		return server.StartEngine(ctx, filepath.Join(r.dir, "docker"), sockets)
	}
	engine, err := start()
	if err != nil {
		return "", err
	}
	r.servers.keep("Docker engine", engine, func() (private, error) { return start() })
	return engine.Host, nil
}

// findEngine finds the engine that answers, or starts one.
func (r *runner) findEngine(ctx context.Context) (string, error) {
	remark := ""
	host, err := server.AnsweringEngine(ctx)
	if err != nil {
		if r.settings.docker != "" {
			return "", err
		}
		if problem := server.CanStartEngine(); problem != nil {
			return "", fmt.Errorf("%w; %w", err, problem)
		}
		if host, err = r.startEngine(ctx); err != nil {
			return "", err
		}
		remark = "a private one: none answered"
	}
	r.dockerHost = host
	if r.state.Engine != "" && r.state.Engine != host {
		r.progress.printf("  Warning: earlier runs used the Docker engine %s.\n  The volumes of workspaces that are not archived are there, and not in %s.\n", r.state.Engine, host)
	}
	r.state.Engine = host
	e, err := connectEngine(host)
	if err != nil {
		return "", err
	}
	defer e.api.Close()
	r.reach, err = e.reach(ctx)
	return remark, err
}

func (r *runner) buildJobImage(ctx context.Context) (string, error) {
	b, err := image.NewBuilder(ctx, r.dockerHost, r.root)
	if err != nil {
		return "", err
	}
	defer b.Close()
	built, err := b.StorageJob(ctx)
	r.jobImage = built.Ref
	return upToDate(built), err
}

// chooseImage decides what workspaces run: what was asked for, an editor, or, where
// there is no registry, a terminal made from this repository.
func (r *runner) chooseImage(ctx context.Context) (string, error) {
	if r.settings.image != "" {
		r.workspaceImage = r.settings.image
		return r.workspaceImage, nil
	}
	e, err := connectEngine(r.dockerHost)
	if err != nil {
		return "", err
	}
	defer e.api.Close()
	there, err := e.editor(ctx, &r.state, time.Now())
	if err != nil {
		return "", err
	}
	if there {
		r.workspaceImage = editorImage
		return r.workspaceImage, nil
	}
	b, err := image.NewBuilder(ctx, r.dockerHost, r.root)
	if err != nil {
		return "", err
	}
	defer b.Close()
	built, err := b.Terminal(ctx)
	if err != nil {
		return "", err
	}
	r.workspaceImage = built.Ref
	return "a small terminal, because " + editorImage + " cannot be pulled here", nil
}

func upToDate(built image.Built) string {
	if built.New {
		return "built"
	}
	return "up to date"
}
