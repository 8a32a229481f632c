package archive

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
)

// authorities returns the certificates that the system trusts, and those in a PEM text. It refuses a text that contains
// anything else: otherwise nobody would notice an unreadable certificate before the first request.
func authorities(text string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any, like a small image
	}
	found, rest := 0, []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a block %q: give certificates only, and no key", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", found+1, err)
		}
		pool.AddCert(certificate)
		found++
	}
	if found == 0 {
		return nil, errors.New("holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
	}
	return pool, nil
}

// trust returns a function that makes a transport also trust the authorities in a PEM text.
func trust(text string) (func(*http.Transport), error) {
	if text == "" {
		return func(*http.Transport) {}, nil
	}
	pool, err := authorities(text)
	if err != nil {
		return nil, fmt.Errorf("s3 ca: %w", err)
	}
	return func(t *http.Transport) {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.RootCAs = pool
	}, nil
}
