package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/codehub/gateway/storagejob/contract"
)

// labelNamespace is a label that every namespace has.
const labelNamespace = "kubernetes.io/metadata.name"

// The networks of all addresses, and IPv4 in the form of IPv6.
var (
	everywhere4 = netip.MustParsePrefix("0.0.0.0/0")
	everywhere6 = netip.MustParsePrefix("::/0")
	mapped4     = netip.MustParsePrefix("::ffff:0:0/96")
)

// nodeCache is the address at which the DNS cache on a node listens.
var nodeCache = netip.MustParsePrefix("169.254.20.10/32")

// JobPolicy is the suffix of the name of the storage jobs' policy.
const JobPolicy = "jobs"

// NetworkPolicies returns the rules about what can reach workspaces and storage jobs, and about what these can reach.
// They are applied under the name [Manager]. Only the gateway reaches a workspace, and nothing reaches a storage job. A
// workspace reaches name servers, the internet, and what [Options.Egress] allows; a storage job reaches name servers
// and the object store. Without active egress rules they reach everything, but workspaces still cannot reach one
// another. A cluster whose network does not enforce such rules ignores them.
func NetworkPolicies(o Options) []*networkingv1.NetworkPolicy {
	o = o.withDefaults()
	workspaces, jobs := closed(o, KindWorkspace, "workspaces"), closed(o, KindJob, JobPolicy)
	workspaces.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: gateways(o)}}
	if o.Egress.Active() {
		for _, p := range []*networkingv1.NetworkPolicy{workspaces, jobs} {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{nameservers(o)}
		}
		workspaces.Spec.Egress = append(workspaces.Spec.Egress, opened(o)...)
		jobs.Spec.Egress = append(jobs.Spec.Egress, store(o)...)
	}
	return []*networkingv1.NetworkPolicy{workspaces, jobs}
}

// closed returns a policy for the Pods of that kind that admits nothing.
func closed(o Options, kind, name string) *networkingv1.NetworkPolicy {
	// The name is hashed, because an installation's name may contain characters that an object's name must not contain.
	sum := sha256.Sum256([]byte(o.Installation))
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "codehub-" + hex.EncodeToString(sum[:4]) + "-" + name, Labels: map[string]string{
				LabelInstallation: o.Installation,
			},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{
				MatchLabels: map[string]string{LabelInstallation: o.Installation, LabelKind: kind},
			},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}

// gateways returns the sources from which the gateway reaches workspaces.
func gateways(o Options) []networkingv1.NetworkPolicyPeer {
	labels, _ := pairs(o.GatewayPods) // Validate finds their errors
	lists, _ := o.Egress.Lists()
	pods := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
	if o.GatewayNamespace != "" {
		pods.NamespaceSelector = namespace(o.GatewayNamespace)
	}
	peers := []networkingv1.NetworkPolicyPeer{pods}
	for _, p := range lists.Gateways {
		peers = append(peers, block(p))
	}
	return peers
}

// nameservers allows the cluster's name servers, at the usual port and at the port behind OpenShift's service, and a
// DNS cache on the node.
func nameservers(o Options) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{
		To:    []networkingv1.NetworkPolicyPeer{{NamespaceSelector: namespace(o.DNSNamespace)}, block(nodeCache)},
		Ports: append(at(53), at(5353)...),
	}
}

// opened returns what workspaces can reach besides name servers. These are the addresses that the settings allow, and
// the internet: all addresses that are neither private nor denied by the settings.
func opened(o Options) []networkingv1.NetworkPolicyEgressRule {
	lists, _ := o.Egress.Lists()
	var rules []networkingv1.NetworkPolicyEgressRule
	for _, d := range lists.Allow {
		rules = append(rules, destination(d))
	}
	return append(rules, internet(lists.Deny)...)
}

// store allows the object store. For an address, it allows that address. For a name, it allows the private addresses
// that the name has now. For the name of a service in the cluster, it allows the service's Pods at any port, because
// rules see the Pods and not the service. It also allows the service's other endpoints. The public addresses of a name
// may change while jobs run; if the name has any, it allows the port on the whole internet.
func store(o Options) []networkingv1.NetworkPolicyEgressRule {
	host, port := o.storeAt()
	if ip, err := netip.ParseAddr(host); err == nil {
		return []networkingv1.NetworkPolicyEgressRule{destination(single(ip, port))}
	}
	var rules []networkingv1.NetworkPolicyEgressRule
	pods, isService := o.storeService()
	if isService {
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{pods}})
	}
	endpoints, public := slices.Clone(o.StoreEndpoints), !isService
	for _, ip := range o.StoreAddresses {
		if ip = ip.Unmap(); isPrivate(ip) {
			endpoints = append(endpoints, netip.AddrPortFrom(ip, port))
		} else {
			public = true
		}
	}
	slices.SortFunc(endpoints, netip.AddrPort.Compare) // a fixed order, for equal rules
	for _, a := range slices.Compact(endpoints) {
		rules = append(rules, destination(single(a.Addr(), a.Port())))
	}
	if public {
		rules = append(rules, internet(nil, at(port)...)...)
	}
	return rules
}

// StoreService returns the name and the namespace of the cluster's service that [Options.Store] names. An empty
// namespace means that of the jobs. ok is false if the store is not a service, or if the rules do not need it.
func (o Options) StoreService() (name, namespace string, ok bool) {
	if _, ok = o.storeService(); !ok || !o.Egress.Active() {
		return "", "", false
	}
	host, _ := o.storeAt()
	parts := strings.Split(host, ".")
	if len(parts) > 1 {
		namespace = parts[1]
	}
	return parts[0], namespace, true
}

// Opened returns the single addresses with ports that a policy allows for the object store. A process that cannot look
// up the store's name learns the known addresses from the policy.
func Opened(p *networkingv1.NetworkPolicy) (all []netip.AddrPort) {
	for _, r := range p.Spec.Egress {
		if len(r.To) != 1 || r.To[0].IPBlock == nil || len(r.Ports) == 0 || r.Ports[0].Port == nil {
			continue
		}
		block, err := netip.ParsePrefix(r.To[0].IPBlock.CIDR)
		if err == nil && block.IsSingleIP() {
			all = append(all, netip.AddrPortFrom(block.Addr(), uint16(r.Ports[0].Port.IntValue())))
		}
	}
	return all
}

// StoreName returns the host name in [Options.Store] if the rules need the addresses of that name (see
// [Options.StoreAddresses]). Otherwise it returns "".
func (o Options) StoreName() string {
	host, _ := o.storeAt()
	_, err := netip.ParseAddr(host)
	if _, isService := o.storeService(); err == nil || isService || o.Store == "" || !o.Egress.Active() {
		return ""
	}
	return host
}

// storeAt returns the host and the port of the object store.
func (o Options) storeAt() (host string, port uint16) {
	u, err := url.Parse(cmp.Or(o.Store, "https://s3.amazonaws.com"))
	if err != nil { // Validate finds it
		return "", 0
	}
	port = 443
	if u.Scheme == "http" {
		port = 80
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(n)
	}
	return u.Hostname(), port
}

// storeService returns the Pods behind the object store if its name is that of a service in the cluster. Such a name
// has the form name.namespace.svc, with or without the cluster's domain. A name without a dot is a service in the
// namespace of the jobs.
func (o Options) storeService() (networkingv1.NetworkPolicyPeer, bool) {
	host, _ := o.storeAt()
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	switch {
	case len(parts) == 1 && host != "" && !strings.Contains(host, ":"):
		foreign := metav1.LabelSelectorRequirement{Key: LabelKind, Operator: metav1.LabelSelectorOpDoesNotExist}
		return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{foreign},
		}}, true
	case len(parts) >= 3 && parts[2] == "svc":
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: namespace(parts[1])}, true
	}
	return networkingv1.NetworkPolicyPeer{}, false
}

// internet allows all addresses that are neither private nor in deny: at the given ports, or at all ports if none is
// given.
func internet(deny []netip.Prefix, ports ...networkingv1.NetworkPolicyPort) []networkingv1.NetworkPolicyEgressRule {
	r := networkingv1.NetworkPolicyEgressRule{Ports: ports}
	for _, all := range []netip.Prefix{everywhere4, everywhere6} {
		if slices.Contains(deny, all) { // an exception must be smaller than the network itself
			continue
		}
		peer := block(all)
		for _, p := range append(contract.Private(), deny...) {
			// the mapped network is not valid here, and IPv4 has its own rule
			if p.Addr().Is4() == all.Addr().Is4() && p != mapped4 {
				peer.IPBlock.Except = append(peer.IPBlock.Except, p.String())
			}
		}
		r.To = append(r.To, peer)
	}
	if len(r.To) == 0 { // an empty list would allow everything
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{r}
}

func isPrivate(ip netip.Addr) bool {
	return slices.ContainsFunc(contract.Private(), func(p netip.Prefix) bool { return p.Contains(ip) })
}

func single(ip netip.Addr, port uint16) contract.Destination {
	ip = ip.Unmap().WithZone("")
	return contract.Destination{Prefix: netip.PrefixFrom(ip, ip.BitLen()), Port: port}
}

func destination(d contract.Destination) networkingv1.NetworkPolicyEgressRule {
	r := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{block(d.Prefix)}}
	if d.Port != 0 {
		r.Ports = at(d.Port)
	}
	return r
}

func block(p netip.Prefix) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: p.String()}}
}

func namespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelNamespace: name}}
}

// at returns a port for UDP and TCP.
func at(port uint16) []networkingv1.NetworkPolicyPort {
	var ports []networkingv1.NetworkPolicyPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		n := intstr.FromInt32(int32(port))
		ports = append(ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &n})
	}
	return ports
}
