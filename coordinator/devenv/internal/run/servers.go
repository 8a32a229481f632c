package run

import (
	"cmp"
	"context"
	"fmt"

	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// prepare starts servers and builds images and Caddy, at the same time.
func (r *runner) prepare(ctx context.Context) error {
	r.printf("Starting; the first time this takes minutes\n")
	all, ctx := errgroup.WithContext(ctx)
	r.databaseURL, r.redisURL, r.s3 = r.settings.database, r.settings.redis, r.settings.s3
	all.Go(func() error { return r.step("Caddy", func() error { return caddybuild.Build(ctx, r.root) }) })
	all.Go(func() error {
		if r.databaseURL == "" {
			if err := r.step("PostgreSQL", func() error { return r.startPostgreSQL(ctx) }); err != nil {
				return err
			}
		}
		exists, err := adminExists(ctx, r.databaseURL)
		if err != nil {
			return err
		}
		r.password, err = choosePassword(r.dir, r.settings.password, exists)
		return err
	})
	if r.redisURL == "" {
		all.Go(func() error { return r.step("Redis", r.startRedis) })
	}
	if r.s3.endpoint == "" {
		all.Go(func() error { return r.step("S3", func() error { return r.startS3(ctx) }) })
	}
	all.Go(func() error {
		if err := r.step("Docker engine", func() error { return r.findEngine(ctx) }); err != nil {
			return err
		}
		return r.step("container images", func() error { return r.buildImages(ctx) })
	})
	if err := all.Wait(); err != nil {
		return err
	}
	return r.state.save(r.dir)
}

func (r *runner) startPostgreSQL(ctx context.Context) error {
	pg, err := start(r.servers, "PostgreSQL", func() (*server.PostgreSQL, error) {
		return server.StartPostgreSQL(server.Durable(r.dir, "postgresql"))
	})
	if err != nil {
		return err
	}
	r.databaseURL = pg.DSN(databaseName)
	return pg.CreateDatabase(ctx, databaseName)
}

func (r *runner) startRedis() error {
	redis, err := start(r.servers, "Redis", func() (*server.Redis, error) {
		return server.StartRedis(server.Durable(r.dir, "redis"))
	})
	if err == nil {
		r.redisURL = redis.URL()
	}
	return err
}

func (r *runner) startS3(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // which ends with prepare
	s3, err := start(r.servers, "S3", func() (*server.S3, error) {
		return server.StartS3(ctx, server.Durable(r.dir, "s3"), r.state.S3AccessKey, r.state.S3SecretKey,
			server.Loopback, r.s3Port)
	})
	if err != nil {
		return err
	}
	r.s3Port = s3.Port // it has the same one when it is started again
	r.s3 = s3Settings{
		endpoint: s3.Endpoint, region: server.S3Region, bucket: cmp.Or(r.settings.s3.bucket, defaultBucket),
		accessKey: s3.AccessKey, secretKey: s3.SecretKey, pathStyle: "true",
	}
	return nil
}

func (r *runner) startEngine() error {
	engine, err := start(r.servers, "Docker engine", func() (*server.Engine, error) {
		return server.StartEngine(server.Durable(r.dir, "docker"), r.isolated)
	})
	if err == nil {
		r.dockerHost = engine.Host
	}
	return err
}

// findEngine finds the engine that answers, or starts a private one.
func (r *runner) findEngine(ctx context.Context) (err error) {
	r.dockerHost, err = server.AnsweringEngine(ctx)
	if err != nil && r.settings.docker != "" {
		return err
	}
	if err != nil {
		if problem := server.CanStartEngine(); problem != nil {
			return fmt.Errorf("%w; %w", err, problem)
		}
		if err := r.startEngine(); err != nil {
			return err
		}
	}
	if r.state.Engine != "" && r.state.Engine != r.dockerHost {
		r.printf("  Warning: earlier runs used the Docker engine %s.\n  The volumes of workspaces that are not "+
			"archived are there, and not in %s.\n", r.state.Engine, r.dockerHost)
	}
	r.state.Engine = r.dockerHost
	return withEngine(r.dockerHost, func(api *client.Client) error {
		info, err := api.Info(ctx)
		if err != nil || r.settings.reachable {
			return err
		}
		return checkReach(info)
	})
}

// buildImages builds the storage job's image and chooses the image of workspaces: the one in the settings if set,
// otherwise an editor, or a terminal if the editor cannot be pulled.
func (r *runner) buildImages(ctx context.Context) (err error) {
	if r.jobImage, err = image.StorageJob.Build(ctx, r.dockerHost, r.root); err != nil {
		return err
	}
	if r.workspaceImage = cmp.Or(r.settings.image, editorImage); r.settings.image != "" {
		return nil
	}
	if err := pullEditor(ctx, r.dockerHost); err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	r.printf("  %s cannot be pulled here: workspaces are small terminals\n", editorImage)
	r.workspaceImage, err = image.Terminal.Build(ctx, r.dockerHost, r.root)
	return err
}
