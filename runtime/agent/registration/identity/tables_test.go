package identity_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
)

// A hub need not remember the headers of its answers for each agent.
func TestAConnectionAsksTheHubForNoTableOfHeaders(t *testing.T) {
	ca, server := testkit.Serving(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{server}, NextProtos: []string{"h2"}})
	testkit.Must(t, err)
	defer func() { _ = listener.Close() }()
	asked := make(chan uint32, 1)
	go func() {
		defer close(asked)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		frame, err := http2.NewFramer(conn, conn).ReadFrame()
		if settings, ok := frame.(*http2.SettingsFrame); err == nil && ok {
			size, _ := settings.Value(http2.SettingHeaderTableSize)
			asked <- size
		}
	}()
	id := good(t)
	id.Hub.Server, id.Hub.CAData = "https://"+listener.Addr().String(), ca
	credentials, err := identity.NewCredentials(id)
	testkit.Must(t, err)
	defer credentials.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, id.Hub.Server, nil)
	testkit.Must(t, err)
	if response, err := credentials.Config("test").Transport.RoundTrip(request); err == nil { // the hub hangs up
		_ = response.Body.Close()
	}
	if size, ok := <-asked; !ok || size != 1 {
		t.Errorf("the connection asks for a table of %d bytes, want 1", size)
	}
}
