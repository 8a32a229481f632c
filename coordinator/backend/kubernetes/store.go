package kubernetes

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/clock"
)

// storeKept is how long an address of the object store stays allowed after it was last reported. A running job may
// still use it, and a name with several addresses may resolve to another of them each time.
const storeKept = time.Hour

// storeMemory holds the known addresses of the object store, and when they were last reported. A name server or an API
// server that does not answer must not cut off running jobs.
type storeMemory struct {
	of   string // the store
	seen map[netip.AddrPort]clock.Moment
}

// add records reported addresses. If there are any, it forgets those that have not been reported for a long time.
func (m *storeMemory) add(told []netip.AddrPort) {
	for _, a := range told {
		m.seen[a] = clock.Now()
	}
	for a, at := range m.seen {
		if len(told) > 0 && at.Elapsed() > storeKept {
			delete(m.seen, a)
		}
	}
}

// withStore returns the options with the object store's addresses: those that are reported now, and those that were
// known before. policies are the policies in the cluster, from which a new process learns the addresses that were known
// before. If the addresses are unknown, the other rules still apply.
func (b *Backend) withStore(ctx context.Context, o spec.Options, policies []networkingv1.NetworkPolicy) spec.Options {
	name := o.StoreName()
	service, namespace, isService := o.StoreService()
	if name == "" && !isService {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, object.ReadLimit)
	defer cancel()
	m := &b.isolated.store
	if m.of != o.Store {
		*m = storeMemory{of: o.Store, seen: make(map[netip.AddrPort]clock.Moment)}
	}
	var told []netip.AddrPort
	if isService {
		// A service that is an alias of another domain has no endpoints. This account also may not have the right to
		// read the endpoints of another namespace.
		if list, err := b.api.Endpoints(ctx, namespace, service); err == nil {
			told = foreign(list)
		}
		namespace = cmp.Or(namespace, b.api.Namespace())
		name = service + "." + namespace + ".svc"
	}
	if len(told) == 0 {
		addresses, _ := b.resolve(ctx, "ip", name)
		for _, ip := range addresses {
			told = append(told, netip.AddrPortFrom(ip.Unmap(), 0)) // at the port of the store
		}
	}
	if m.add(told); len(m.seen) == 0 {
		for i := range policies {
			if strings.HasSuffix(policies[i].Name, spec.JobPolicy) {
				m.add(spec.Opened(&policies[i]))
			}
		}
	}
	for a := range m.seen {
		if a.Port() == 0 {
			o.StoreAddresses = append(o.StoreAddresses, a.Addr())
		} else {
			o.StoreEndpoints = append(o.StoreEndpoints, a)
		}
	}
	return o
}

// foreign returns those endpoints of a service that are not Pods, such as endpoints that were written by hand.
func foreign(list *discoveryv1.EndpointSliceList) (all []netip.AddrPort) {
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				continue
			}
			for _, text := range e.Addresses {
				ip, err := netip.ParseAddr(text)
				if err != nil { // the name of another domain
					continue
				}
				for _, p := range slice.Ports {
					if p.Port != nil {
						all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(*p.Port)))
					}
				}
				if len(slice.Ports) == 0 {
					all = append(all, netip.AddrPortFrom(ip.Unmap(), 0))
				}
			}
		}
	}
	return all
}
