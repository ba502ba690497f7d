package page

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/utils/clock"
)

const (
	// sessionLife is how long a browser stays logged in, unless its token ends before.
	sessionLife = 8 * time.Hour
	// maxCookie is what browsers take of a cookie, with some room for its attributes.
	maxCookie = 3800
	// maxForm is the size of a login form, in bytes.
	maxForm = 16 << 10
)

// Front is what stands before a hub's authentication: it logs browsers in and out, and
// lets their requests bear the token that they have logged in with. All else of the page
// is behind authentication, authorization, audit and fairness, as the API is.
//
// A session is a cookie that only this page reads: the token, sealed with a key that all
// replicas of a hub share. So nobody who gets the cookie gets the token, and no server
// remembers anything.
type Front struct {
	clock clock.PassiveClock
	oidc  *provider
	seal  atomic.Pointer[sealer]
}

// NewFront makes what stands before the page. Nobody can log in before UseKey. o may be
// nil: then there is no login by OpenID Connect.
func NewFront(clk clock.PassiveClock, o *OIDC) *Front {
	f := &Front{clock: clk}
	if o != nil {
		f.oidc = &provider{OIDC: *o}
	}
	return f
}

// UseKey sets the key of 32 bytes by which sessions are sealed.
func (f *Front) UseKey(key []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("the key of the page's sessions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return fmt.Errorf("the key of the page's sessions: %w", err)
	}
	// Cookies don't know ports: two hubs on one machine need two names.
	sum := sha256.Sum256(append([]byte("name "), key...))
	f.seal.Store(&sealer{aead: aead, suffix: hex.EncodeToString(sum[:4])})
	return nil
}

// Wrap puts the page's logins before a hub's handler.
func (f *Front) Wrap(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != strings.TrimSuffix(Path, "/") && !strings.HasPrefix(r.URL.Path, Path) {
			next.ServeHTTP(w, r)
			return
		}
		secure(w.Header())
		if err := protection.Check(r); err != nil {
			f.login(w, r, http.StatusForbidden, "Another site has sent this form. Log in here if you want to.")
			return
		}
		switch r.URL.Path {
		case strings.TrimSuffix(Path, "/"):
			http.Redirect(w, r, Path, http.StatusSeeOther)
		case Path + "style.css":
			serveStyle(w, r)
		case Path + "login":
			f.logIn(w, r)
		case Path + "logout":
			f.logOut(w, r)
		case Path + "oidc/login", Path + "oidc/callback":
			f.viaProvider(w, r)
		default:
			f.pass(next, w, r)
		}
	})
}

// pass passes a request on as that of the user who has logged in. Who has not, or not any
// more, gets the login.
func (f *Front) pass(next http.Handler, w http.ResponseWriter, r *http.Request) {
	said := ""
	r = r.Clone(r.Context())
	if token, found := f.session(r); found {
		said = "You were logged in for as long as one may be, or the token is not valid any more. Log in again."
		if token != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	r.Header.Del("Cookie") // nobody behind needs it
	refused := &unauthorized{ResponseWriter: w}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(refused), r)
	if refused.is {
		f.login(w, r, http.StatusUnauthorized, said)
	}
}

// unauthorized keeps an answer 401 back, in whose place the login is shown.
type unauthorized struct {
	http.ResponseWriter
	is, begun bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (u *unauthorized) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *unauthorized) WriteHeader(status int) {
	if status == http.StatusUnauthorized && !u.begun {
		u.is = true
		return
	}
	u.begun = true
	u.ResponseWriter.WriteHeader(status)
}

func (u *unauthorized) Write(b []byte) (int, error) {
	if u.is {
		return len(b), nil
	}
	u.begun = true
	return u.ResponseWriter.Write(b)
}

// logIn takes a token from the form.
func (f *Front) logIn(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		f.login(w, r, http.StatusOK, "")
		return
	case http.MethodPost:
	default:
		methodNotAllowed(w, "GET, POST")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	switch {
	case token == "":
		f.login(w, r, http.StatusBadRequest, "The token is empty. Paste one, such as kubectl create token prints it.")
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		f.login(w, r, http.StatusBadRequest, "This is no token: a token has no blanks and line breaks in it.")
	default:
		f.begin(w, r, token, r.PostFormValue("next"))
	}
}

// begin begins a session with a token. Whether it is valid shows at the next request.
func (f *Front) begin(w http.ResponseWriter, r *http.Request, token, next string) {
	s := f.seal.Load()
	if s == nil {
		f.login(w, r, http.StatusServiceUnavailable, "The hub is starting. Try again in a second.")
		return
	}
	value := s.sealed(session{Token: token, Until: f.clock.Now().Add(sessionLife)}, purposeSession)
	if len(value) > maxCookie {
		f.login(w, r, http.StatusBadRequest, fmt.Sprintf("The token has %d characters, which is more than fit into "+
			"a browser's cookie. Use one of a service account, or one with fewer groups in it.", len(token)))
		return
	}
	s.set(w, s.sessionCookie(), value, sessionLife)
	http.Redirect(w, r, inPage(next), http.StatusSeeOther)
}

func (f *Front) logOut(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		methodNotAllowed(w, "POST")
		return
	}
	if s := f.seal.Load(); s != nil {
		s.set(w, s.sessionCookie(), "", -1)
	}
	http.Redirect(w, r, Path+"login", http.StatusSeeOther)
}

// session is the token that a browser has logged in with: "" when the session has ended,
// and not found when there is none.
func (f *Front) session(r *http.Request) (token string, found bool) {
	s := f.seal.Load()
	if s == nil {
		return "", false
	}
	cookie, err := r.Cookie(s.sessionCookie())
	if err != nil || cookie.Value == "" {
		return "", false
	}
	var in session
	if !s.open(cookie.Value, purposeSession, &in) || !f.clock.Now().Before(in.Until) {
		return "", true
	}
	return in.Token, true
}

// login shows the login.
func (f *Front) login(w http.ResponseWriter, r *http.Request, status int, said string) {
	next := r.URL.RequestURI()
	if name := strings.TrimPrefix(r.URL.Path, Path); name == "login" || name == "logout" ||
		strings.HasPrefix(name, "oidc/") || r.Method == http.MethodPost {
		next = r.FormValue("next")
	}
	render(w, status, "login", view{Title: "Log in", Said: said, Next: inPage(next), OIDC: f.oidc.label()})
}

// inPage is a path of the page, and its beginning for all else: nobody is sent elsewhere
// after a login.
func inPage(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" || strings.Contains(next, "\\") {
		return Path
	}
	clean := path.Clean(u.Path)
	if clean == strings.TrimSuffix(Path, "/") || !strings.HasPrefix(clean, Path) {
		return Path
	}
	if name := strings.TrimPrefix(clean, Path); name == "login" || name == "logout" || strings.HasPrefix(name, "oidc") {
		return Path
	}
	return (&url.URL{Path: clean, RawQuery: u.RawQuery}).String()
}

// What is sealed in cookies, and so can't be taken for each other.
const (
	purposeSession = "session"
	purposeLogin   = "login"
)

type session struct {
	Token string    `json:"t"`
	Until time.Time `json:"u"`
}

// sealer seals what browsers keep.
type sealer struct {
	aead   cipher.AEAD
	suffix string
}

func (s *sealer) sessionCookie() string { return "__Secure-muster-" + s.suffix }

func (s *sealer) loginCookie() string { return "__Secure-muster-login-" + s.suffix }

func (s *sealer) sealed(v any, purpose string) string {
	plain, _ := json.Marshal(v) // texts and times
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose)))
}

func (s *sealer) open(value, purpose string, into any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	return err == nil && json.Unmarshal(plain, into) == nil
}

// set sets a cookie. Scripts don't see it, and requests that other sites make have it only
// when they lead to the page itself, as a link does.
func (s *sealer) set(w http.ResponseWriter, name, value string, life time.Duration) {
	age := int(life.Seconds())
	if life < 0 {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: Path, MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
}
