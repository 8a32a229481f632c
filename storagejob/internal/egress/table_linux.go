package egress

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
)

// The chains. Their priority is before the filters of Docker and the host, which are at 0: a packet that is refused
// here never reaches their filters.
const (
	chainForward = "forward"
	chainInput   = "input"
	priority     = -10
)

// chain is a base chain and its rules in the kernel's form.
type chain struct {
	name  string
	hook  *nftables.ChainHook
	rules [][]expr.Any
}

func chains(r contract.EgressRules, nameservers []netip.Addr) []chain {
	forward := chain{chainForward, nftables.ChainHookForward, behind(r.Bridge, forwarded(r, nameservers))}
	input := chain{chainInput, nftables.ChainHookInput, behind(r.Bridge, toHost(r, nameservers))}
	if j := r.Jobs; j != nil {
		forward.rules = append(forward.rules, behind(j.Bridge, jobsForwarded(*j, nameservers))...)
		input.rules = append(input.rules, behind(j.Bridge, jobsToHost(*j, nameservers))...)
	}
	return []chain{forward, input}
}

// behind returns the rules for the containers on a bridge, in the kernel's form.
func behind(bridge string, rules []rule) [][]expr.Any {
	all := make([][]expr.Any, len(rules))
	for i, r := range rules {
		all[i] = r.expressions(bridge)
	}
	return all
}

func tableOf(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
}

// apply replaces the table in one transaction: there is never a moment without rules, and manual changes to the table
// are lost.
func apply(r contract.EgressRules, nameservers []netip.Addr) (contract.EgressResult, error) {
	result, err := status(r, nameservers)
	if err != nil {
		return result, err
	}
	c := new(nftables.Conn)
	table := tableOf(r.Table)
	c.AddTable(table) // deleting it would fail if it did not exist
	c.DelTable(table)
	c.AddTable(table)
	mark := fingerprint(r, nameservers)
	for _, one := range chains(r, nameservers) {
		made := c.AddChain(&nftables.Chain{
			Name: one.name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: one.hook,
			Priority: nftables.ChainPriorityRef(priority),
		})
		for _, rule := range one.rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: made, Exprs: rule, UserData: mark})
		}
	}
	return result, explain(c.Flush())
}

// status reports whether the table is as apply would create it.
func status(r contract.EgressRules, nameservers []netip.Addr) (contract.EgressResult, error) {
	result := contract.EgressResult{Nameservers: nameservers}
	c := new(nftables.Conn)
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return result, explain(err)
	}
	table := tableOf(r.Table)
	for _, t := range tables {
		result.Stood = result.Stood || t.Name == r.Table
	}
	if !result.Stood {
		return result, nil
	}
	mark := fingerprint(r, nameservers)
	for _, one := range chains(r, nameservers) {
		found, err := c.GetRules(table, &nftables.Chain{Name: one.name, Table: table})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return result, explain(err)
		}
		result.Stood = result.Stood && len(found) == len(one.rules)
		for _, rule := range found {
			result.Stood = result.Stood && bytes.Equal(rule.UserData, mark)
		}
	}
	return result, nil
}

// remove removes the table, if it is there.
func remove(table string) error {
	c := new(nftables.Conn)
	c.AddTable(tableOf(table))
	c.DelTable(tableOf(table))
	return explain(c.Flush())
}

// explain adds advice to an error of the kernel.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: nftables: %w: the engine does not let a container administer its host's network, "+
			"as a rootless one does not", contract.ErrUnable, err)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: nftables: %w: the kernel of the engine's host lacks nf_tables, or its modules "+
			"nft_ct and nft_reject_inet", contract.ErrUnable, err)
	}
	return fmt.Errorf("nftables: %w", err)
}

// fingerprint marks every rule with a hash of the table's input.
func fingerprint(r contract.EgressRules, nameservers []netip.Addr) []byte {
	text, _ := json.Marshal([]any{r, nameservers, contract.Private()}) // cannot fail: it is plain data
	sum := sha256.Sum256(text)
	// The comment has the form of nft's own comments (type, length, text), so that `nft list` shows it.
	comment := fmt.Sprintf("codehub %x\x00", sum[:8])
	return append([]byte{0, byte(len(comment))}, comment...)
}

// expressions returns the rule in the kernel's form. All comparisons use register 1.
func (r rule) expressions(bridge string) []expr.Any {
	e := equal(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, interfaceName(bridge))
	if r.sameLink {
		e = append(e, equal(&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, interfaceName(bridge))...)
	}
	if r.replies {
		e = append(e,
			&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Xor: make([]byte, 4),
				Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)})
	}
	if r.source.IsValid() {
		e = append(e, inPrefix(r.source, 12, 8)...)
	}
	if r.to.IsValid() {
		e = append(e, inPrefix(r.to, 16, 24)...)
	}
	if r.protocol != 0 {
		e = append(e, equal(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, []byte{r.protocol})...)
	}
	if r.port != 0 {
		e = append(e, equal(&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			binary.BigEndian.AppendUint16(nil, r.port))...)
	}
	if r.discovery {
		e = append(e, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
			&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{firstDiscovery}, ToData: []byte{lastDiscovery}})
	}
	switch r.then {
	case reject:
		return append(e, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH,
			Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED})
	case drop:
		return append(e, &expr.Verdict{Kind: expr.VerdictDrop})
	}
	return append(e, &expr.Verdict{Kind: expr.VerdictAccept})
}

// equal loads a value and compares it.
func equal(load expr.Any, with []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: with}}
}

// inPrefix compares an address in the IP header. The address is at offset4 for IPv4 and at offset6 for IPv6.
func inPrefix(p netip.Prefix, offset4, offset6 uint32) []expr.Any {
	family, offset := byte(unix.NFPROTO_IPV4), offset4
	if p.Addr().Is6() {
		family, offset = unix.NFPROTO_IPV6, offset6
	}
	address := p.Masked().Addr().AsSlice()
	size := uint32(len(address))
	e := equal(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, []byte{family})
	return append(e,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Xor: make([]byte, size),
			Mask: net.CIDRMask(p.Bits(), int(size)*8)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address})
}

// interfaceName returns a name in the form that the kernel compares.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}
