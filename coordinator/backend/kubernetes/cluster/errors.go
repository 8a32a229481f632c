package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/internal/peer"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Wrap adds what the caller was doing. It adds the reason Unreachable if the cluster did not answer before
// the caller's deadline, or does not accept the credential. A cancelled context says
// nothing about the cluster, so its error gets no reason. The functions of package apierrors still recognize the
// error. Wrap returns nil for a nil error.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	unreachable := func(format string, args ...any) error {
		return workspace.Fail(workspace.ReasonUnreachable, fmt.Errorf(format, args...))
	}
	var failure *workspace.Failure
	var changed *peer.ChangedError
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.As(err, &failure), errors.Is(err, context.Canceled), errors.Is(err, backend.ErrLeaseLapsed):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.As(err, &changed):
		return unreachable("%s: %w", doing, err)
	case errors.Is(err, context.DeadlineExceeded):
		return unreachable("%s: the Kubernetes cluster did not answer in time: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return unreachable("%s: the Kubernetes cluster does not accept this process's credential (401): %w", doing, err)
	case apierrors.IsForbidden(err):
		return forbidden(doing, err)
	case answersLater(err):
		return unreachable("%s: the Kubernetes cluster cannot answer now: %w", doing, err)
	case errors.As(err, &certificate):
		return unreachable("%s: the server's certificate is not the cluster's; check the address and "+
			"certificate-authority in the kubeconfig: %w", doing, err)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed):
		return unreachable("%s: the Kubernetes cluster does not answer: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// answersLater reports whether the cluster answered that it cannot serve the request at the moment.
func answersLater(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 500
}

// denied is the text with which RBAC refuses a request. The error's code is the same for every refusal.
var denied = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"`)

// forbidden explains which right is missing in RBAC. Other refusals, such as a quota's,
// explain themselves.
func forbidden(doing string, err error) error {
	m := denied.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	resource := m[3]
	if m[4] != "" {
		resource += "." + m[4]
	}
	return fmt.Errorf("%s: the cluster's RBAC does not let %s %s %s; give it the rights that "+
		"caddymodule/docs/kubernetes.md lists: %w", doing, m[1], m[2], resource, err)
}

// explain adds to an error which credential was refused, and how to renew it.
func (c *Client) explain(err error) error {
	if err == nil || !apierrors.IsUnauthorized(err) {
		return err
	}
	return fmt.Errorf("it is %s: %w", c.settings.credential, err)
}
