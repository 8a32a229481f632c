package preview

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/coordinator/workspace"
)

// exampleLogo is an operator's logo.
const exampleLogo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">` +
	`<circle cx="16" cy="16" r="15" fill="#c2185b"/>` +
	`<path d="M9 22l7-13 7 13z" fill="#fff"/></svg>`

// branded returns one page of each kind with an operator's name, logo and color.
func (p *Preview) branded(all []*entry) (list []*entry, err error) {
	if p.brand, err = brand.New("Acme Labs", []byte(exampleLogo), "c2185b"); err != nil {
		return nil, err
	}
	for _, of := range []string{
		"wake/job-unpack-0", "limit/of-the-user", "failed/" + string(workspace.ReasonConflict), "message/NoAnswer",
		"sign-in/both", "sign-in/unavailable", "provider/0", "dashboard/phases",
	} {
		for _, e := range all {
			if e.Group+"/"+e.Name != of {
				continue
			}
			list = append(list, &entry{Group: "brand", Name: e.Group + "-" + e.Name, board: e.board, status: e.status,
				show: func(w http.ResponseWriter, r *http.Request) error { return e.show(w, brand.In(r, p.brand)) }})
		}
	}
	return list, nil
}
