package contract

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// GrantName is the file in the job's scratch folder that holds its [Grant] as JSON, and GrantPath is where a backend
// puts it. The job reads it if [EnvGrant] is true, and removes it immediately afterwards.
const (
	GrantName = "grant.json"
	GrantPath = ScratchPath + "/" + GrantName
)

// Grant holds everything that a job may do with the object store: requests for one archive, signed in advance, each for
// one method and address only. It is a secret until it expires.
type Grant struct {
	// Expires is when the store stops accepting the requests.
	Expires time.Time `json:"expires"`
	// Requests are the signed requests.
	Requests []GrantedRequest `json:"requests"`
	// Upload is the multipart upload to which parts may be sent. Only an archive job has one.
	Upload *GrantedUpload `json:"upload,omitempty"`
	// CA holds certificates in PEM that may have signed the store's certificate, besides those that the system trusts.
	CA string `json:"ca,omitempty"`
	// Recipients are age's public keys, to which a new archive is encrypted; without any, it is not encrypted.
	// Identities are age's secret keys, with which a restore tries to open an archive.
	Recipients []string `json:"recipients,omitempty"`
	Identities []string `json:"identities,omitempty"`
}

// GrantedRequest is one request that may be sent as often as needed.
type GrantedRequest struct {
	Method string `json:"method"`
	// URL is the signed address.
	URL string `json:"url"`
	// Header must be sent unchanged.
	Header map[string]string `json:"header,omitempty"`
}

// GrantedUpload holds the requests that send the parts of a multipart upload. There are hundreds of them, so their
// common part is kept once.
type GrantedUpload struct {
	ID string `json:"id"`
	// Part is the signed address of a part, without its number and signature.
	Part string `json:"part"`
	// Signatures are those of the parts, starting with the first one. No other parts may be sent.
	Signatures []string `json:"signatures"`
}

// The parameters in which the signed addresses of the parts differ.
const (
	paramPart      = "partNumber"
	paramSignature = "X-Amz-Signature"
)

// NewGrantedUpload joins the signed addresses of an upload's parts, in order.
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

// PartURL returns the signed address of a part; the first part has the number 1. It reports false for a part that is
// not granted.
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
