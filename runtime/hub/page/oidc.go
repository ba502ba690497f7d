package page

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc"
	"golang.org/x/oauth2"
)

const (
	// loginLife is how long somebody may take to log in at the provider.
	loginLife = 10 * time.Minute
	// providerTimeout is how long the provider may take to answer.
	providerTimeout = 10 * time.Second
)

// OIDC is the client of an OpenID Connect provider by which users log in to the page
// (OpenID Connect Core 1.0, code flow with PKCE). The ID token is then the user's token,
// which the hub's authentication has to know: the issuer is one of its
// AuthenticationConfiguration, with the client among its audiences.
type OIDC struct {
	// IssuerURL is the provider's, as in its tokens.
	IssuerURL string
	// ClientID is what the page is at the provider. The redirect URI to register there is
	// the hub's URL with /ui/oidc/callback.
	ClientID string
	// ClientSecretFile has the client's secret; "" is a client without one.
	ClientSecretFile string
	// CAFile has the authorities of the provider's certificate, in PEM; "" is the system's.
	CAFile string
	// Scopes are asked for beside openid, such as email and groups.
	Scopes []string
}

// Validate checks the values, and the files if they can be read.
func (o *OIDC) Validate() error {
	u, err := url.Parse(o.IssuerURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--web-page-oidc-issuer-url %q is no URL that begins with https://: give the one in the "+
			"provider's tokens (iss)", o.IssuerURL)
	case o.ClientID == "":
		return errors.New("--web-page-oidc-issuer-url is given without --web-page-oidc-client-id: give both")
	}
	if _, err := o.secret(); err != nil {
		return err
	}
	_, err = o.client()
	return err
}

func (o *OIDC) secret() (string, error) {
	if o.ClientSecretFile == "" {
		return "", nil
	}
	content, err := os.ReadFile(o.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("--web-page-oidc-client-secret-file: %w: give a file with the client's secret", err)
	}
	return strings.TrimSpace(string(content)), nil
}

func (o *OIDC) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		content, err := os.ReadFile(o.CAFile)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(content) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			return nil, fmt.Errorf("--web-page-oidc-ca-file %q: %w: give a file with certificates of authorities, "+
				"in PEM", o.CAFile, err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: providerTimeout}, nil
}

// provider is what is known of a provider once it has answered.
type provider struct {
	OIDC

	mu    sync.Mutex
	known *oidc.Provider
	http  *http.Client
}

// label is what the button of the login says; "" when there is none.
func (p *provider) label() string {
	if p == nil {
		return ""
	}
	u, _ := url.Parse(p.IssuerURL) // Validate has
	return u.Host
}

// discover asks the provider where its endpoints are, once.
func (p *provider) discover() (*oidc.Provider, *http.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, p.http, nil
	}
	c, err := p.client()
	if err != nil {
		return nil, nil, err
	}
	// The provider keeps the context for its keys, so it must not end with a request.
	known, err := oidc.NewProvider(oidc.ClientContext(context.Background(), c), p.IssuerURL)
	if err != nil {
		return nil, nil, err
	}
	p.known, p.http = known, c
	return known, c, nil
}

func (p *provider) config(r *http.Request, known *oidc.Provider) (*oauth2.Config, error) {
	secret, err := p.secret()
	if err != nil {
		return nil, err
	}
	scopes := p.Scopes
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = slices.Concat([]string{oidc.ScopeOpenID}, scopes)
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, Endpoint: known.Endpoint(), Scopes: scopes,
		RedirectURL: "https://" + r.Host + Path + "oidc/callback"}, nil
}

// attempt is a login that has begun, as the browser keeps it, sealed.
type attempt struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Next     string    `json:"p"`
	Until    time.Time `json:"u"`
}

// viaProvider sends a browser to the provider, and takes it back.
func (f *Front) viaProvider(w http.ResponseWriter, r *http.Request) {
	s := f.seal.Load()
	switch {
	case f.oidc == nil:
		f.login(w, r, http.StatusNotFound, "This hub has no login by OpenID Connect. Use a token.")
		return
	case s == nil:
		f.login(w, r, http.StatusServiceUnavailable, "The hub is starting. Try again in a second.")
		return
	case r.Method != http.MethodGet:
		methodNotAllowed(w, "GET")
		return
	}
	known, client, err := f.oidc.discover()
	if err != nil {
		f.providerFailed(w, r, "does not answer", err)
		return
	}
	config, err := f.oidc.config(r, known)
	if err != nil {
		f.providerFailed(w, r, "can't be asked", err)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/login") {
		a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
			Next: inPage(r.FormValue("next")), Until: f.clock.Now().Add(loginLife)}
		s.set(w, s.loginCookie(), s.sealed(a, purposeLogin), loginLife)
		http.Redirect(w, r, config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce),
			oauth2.S256ChallengeOption(a.Verifier)), http.StatusSeeOther)
		return
	}
	f.comeBack(w, r, s, known, client, config)
}

// comeBack takes the code that a browser brings from the provider, and gets the token for
// it.
func (f *Front) comeBack(w http.ResponseWriter, r *http.Request, s *sealer, known *oidc.Provider,
	client *http.Client, config *oauth2.Config) {
	var a attempt
	cookie, err := r.Cookie(s.loginCookie())
	if err != nil || !s.open(cookie.Value, purposeLogin, &a) || !f.clock.Now().Before(a.Until) ||
		a.State != r.FormValue("state") {
		f.login(w, r, http.StatusBadRequest, "This login was not begun in this browser, or too long ago. Begin again.")
		return
	}
	s.set(w, s.loginCookie(), "", -1)
	if refusal := r.FormValue("error"); refusal != "" {
		f.providerFailed(w, r, "has refused the login", errors.New(strings.TrimSuffix(
			refusal+": "+r.FormValue("error_description"), ": ")))
		return
	}
	ctx, end := context.WithTimeout(oidc.ClientContext(r.Context(), client), providerTimeout)
	defer end()
	tokens, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(a.Verifier))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.ErrorCode != "" {
		err = errors.New(strings.TrimSuffix(refused.ErrorCode+": "+refused.ErrorDescription, ": "))
	}
	if err != nil {
		f.providerFailed(w, r, "has given no token for the login", err)
		return
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := known.Verifier(&oidc.Config{ClientID: f.oidc.ClientID, Now: f.clock.Now}).Verify(ctx, raw)
	if err == nil && id.Nonce != a.Nonce {
		err = errors.New("the token is for another login")
	}
	if err != nil {
		f.providerFailed(w, r, "has given a token that can't be used", err)
		return
	}
	f.begin(w, r, raw, a.Next)
}

func (f *Front) providerFailed(w http.ResponseWriter, r *http.Request, what string, err error) {
	f.login(w, r, http.StatusBadGateway, fmt.Sprintf("The provider %s %s: %v.", f.oidc.label(), what,
		strings.TrimSuffix(strings.Join(strings.Fields(err.Error()), " "), ".")))
}
