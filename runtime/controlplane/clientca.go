package controlplane

import (
	"crypto/x509"
	"fmt"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
)

// clientCA is the authority of client certificates, which expire by a clock of
// its own: tests let years pass in seconds.
type clientCA struct {
	*dynamiccertificates.DynamicFileCAContent
	clock clock.PassiveClock
}

func newClientCA(file string, clk clock.PassiveClock) (clientCA, error) {
	content, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", file)
	if err != nil {
		return clientCA{}, fmt.Errorf("read the authority of client certificates: %w", err)
	}
	return clientCA{content, clk}, nil
}

// VerifyOptions are those of the file, at the clock's time.
func (c clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	o, ok := c.DynamicFileCAContent.VerifyOptions()
	o.CurrentTime = c.clock.Now()
	return o, ok
}
