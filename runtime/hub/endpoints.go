package hub

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
)

// validateEndpoints checks what agents learn about where the hub is.
func (o *Options) validateEndpoints() error {
	var problems []error
	if len(o.AdditionalExternalURLs) > 0 && o.ExternalURL == "" {
		problems = append(problems, errors.New("--additional-external-urls is given without --external-url, which is the one that agents use first: give both"))
	}
	for _, c := range o.NamedCertificates {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			problems = append(problems, fmt.Errorf("--tls-sni-cert-key %s,%s: %w: give a certificate with its chain and the key of it, both in PEM", c.CertFile, c.KeyFile, err))
		}
	}
	if _, err := o.externalCAs(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// externalCAs are the authorities of o.ExternalCAFiles.
func (o *Options) externalCAs() ([]byte, error) {
	var all []byte
	for _, file := range o.ExternalCAFiles {
		bundle, err := os.ReadFile(file)
		if err == nil {
			_, err = hubinfo.ParseBundle(bundle)
		}
		if err != nil {
			return nil, fmt.Errorf("--external-ca-files %s: %w: give a file with certificates of authorities, in PEM", file, err)
		}
		all = append(append(all, bytes.TrimSpace(bundle)...), '\n')
	}
	return all, nil
}

// externalURLs are those that agents are to use, the first one before the others.
func (o *Options) externalURLs() []string {
	if o.ExternalURL == "" {
		return nil
	}
	urls := []string{o.ExternalURL}
	for _, u := range o.AdditionalExternalURLs {
		if !hubinfo.ContainsURL(urls, u) {
			urls = append(urls, u)
		}
	}
	return urls
}
