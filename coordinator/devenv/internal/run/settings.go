package run

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// settings are the variables for `make run` in the environment.
type settings struct {
	// database, redis and docker are the addresses of servers to use; if empty, a private server is used.
	database, redis, docker string
	// s3 is the object store to use; without an endpoint, a private one is used.
	s3 s3Settings
	// port is where Caddy listens.
	port int
	// password is the administrator's; if empty, one is generated the first time.
	password string
	// image is the workspace image; if empty, the run chooses one.
	image string
	// installation overrides the generated installation id.
	installation string
	// reachable says that the environment itself tells how to reach containers.
	reachable bool
}

type s3Settings struct {
	endpoint, region, bucket, accessKey, secretKey, pathStyle string
}

const defaultPort = 8080

// readSettings reads the environment and reports all errors in it together. A variable that would silently have no
// effect is an error, too.
func readSettings(getenv func(string) string) (settings, error) {
	s := settings{
		database: getenv("DATABASE_URL"), redis: getenv("REDIS_URL"), docker: getenv("DOCKER_HOST"),
		s3: s3Settings{
			endpoint: getenv("S3_ENDPOINT"), region: getenv("S3_REGION"), bucket: getenv("S3_BUCKET"),
			accessKey: getenv("S3_ACCESS_KEY"), secretKey: getenv("S3_SECRET_KEY"), pathStyle: getenv("S3_PATH_STYLE"),
		},
		port: defaultPort, password: getenv("CODEHUB_ADMIN_PASSWORD"), image: getenv("CODEHUB_WORKSPACE_IMAGE"),
		installation: getenv("CODEHUB_INSTALLATION"), reachable: getenv("CODEHUB_PUBLISH") != "",
	}
	var errs []error
	if text := getenv("CODEHUB_HTTP_PORT"); text != "" {
		var err error
		if s.port, err = strconv.Atoi(text); err != nil || s.port < 1 || s.port > 65535 {
			errs = append(errs, fmt.Errorf("CODEHUB_HTTP_PORT is %q; give a port from 1 to 65535", text))
		}
	}
	if s.s3.endpoint != "" {
		if u, err := url.Parse(s.s3.endpoint); err != nil || u.Host == "" ||
			(u.Scheme != "http" && u.Scheme != "https") {
			errs = append(errs, fmt.Errorf("S3_ENDPOINT is %q; give a URL such as https://s3.example.com",
				s.s3.endpoint))
		}
		if s.s3.accessKey == "" || s.s3.secretKey == "" {
			errs = append(errs, errors.New("S3_ENDPOINT is set without S3_ACCESS_KEY and S3_SECRET_KEY; set all "+
				"three, or none for a private server"))
		}
		return s, errors.Join(errs...)
	}
	for _, name := range []string{"S3_ACCESS_KEY", "S3_SECRET_KEY", "S3_REGION", "S3_PATH_STYLE"} {
		if getenv(name) != "" {
			errs = append(errs, fmt.Errorf("%s is set without S3_ENDPOINT; set S3_ENDPOINT as well, or unset it "+
				"for a private server", name))
		}
	}
	u, err := url.Parse(s.docker)
	local := err != nil || u.Hostname() == "" || u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.")
	if !local && getenv("CODEHUB_JOB_S3_ENDPOINT") == "" {
		errs = append(errs, fmt.Errorf("DOCKER_HOST is on %s, where storage jobs cannot reach a private S3 server "+
			"of this machine; "+
			"set S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY", u.Hostname()))
	}
	return s, errors.Join(errs...)
}
