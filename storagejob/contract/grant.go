package contract

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// GrantName is the file in the job's scratch folder that holds its [Grant] as JSON, and
// GrantPath where a backend puts it. The job takes it when [EnvGrant] says so, and removes it
// as soon as it has read it.
const (
	GrantName = "grant.json"
	GrantPath = ScratchPath + "/" + GrantName
)

// Grant is all that a job may do with the object store: requests for one archive, signed
// beforehand, each for its method and address only. It is a secret until it expires.
type Grant struct {
	// Expires is when the store stops to accept the requests.
	Expires time.Time `json:"expires"`
	// Requests are the signed requests.
	Requests []GrantedRequest `json:"requests"`
	// Upload is the multipart upload whose parts may be sent. Only an archive job has one.
	Upload *GrantedUpload `json:"upload,omitempty"`
	// CA are certificates in PEM that the store's may be signed with, besides those that the
	// system trusts.
	CA string `json:"ca,omitempty"`
	// Recipients are age's public keys, to which a new archive is encrypted; none for no
	// encryption. Identities are age's secret keys, with which a restore tries to open one.
	Recipients []string `json:"recipients,omitempty"`
	Identities []string `json:"identities,omitempty"`
}

// GrantedRequest is one request that may be sent as often as needed.
type GrantedRequest struct {
	Method string `json:"method"`
	// URL is the signed address.
	URL string `json:"url"`
	// Header must be sent exactly so.
	Header map[string]string `json:"header,omitempty"`
}

// GrantedUpload are the requests that send the parts of a multipart upload, of which there
// are hundreds. What they have in common is kept once.
type GrantedUpload struct {
	ID string `json:"id"`
	// Part is the signed address of a part, without its number and signature.
	Part string `json:"part"`
	// Signatures are those of the parts from the first on. No others may be sent.
	Signatures []string `json:"signatures"`
}

// The parameters of a signed address in which the parts of an upload differ.
const (
	paramPart      = "partNumber"
	paramSignature = "X-Amz-Signature"
)

// NewGrantedUpload joins the signed addresses of an upload's parts, in their order.
func NewGrantedUpload(id string, parts []string) (*GrantedUpload, error) {
	u := &GrantedUpload{ID: id, Signatures: make([]string, len(parts))}
	for i, part := range parts {
		signed, err := url.Parse(part)
		if err != nil {
			return nil, fmt.Errorf("the signed address of part %d cannot be read", i+1) // err would repeat it
		}
		query := signed.Query()
		u.Signatures[i] = query.Get(paramSignature)
		query.Del(paramPart)
		query.Del(paramSignature)
		signed.RawQuery = query.Encode()
		u.Part = signed.String()
	}
	return u, nil
}

// PartURL is the signed address of a part; the first has the number 1. It reports false for
// one that is not granted.
func (u *GrantedUpload) PartURL(number int) (string, bool) {
	if number < 1 || number > len(u.Signatures) {
		return "", false
	}
	signed, err := url.Parse(u.Part)
	if err != nil {
		return "", false
	}
	query := signed.Query()
	query.Set(paramPart, strconv.Itoa(number))
	query.Set(paramSignature, u.Signatures[number-1])
	signed.RawQuery = query.Encode()
	return signed.String(), true
}
