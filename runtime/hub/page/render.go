package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strconv"

	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
)

// view is what a page shows.
type view struct {
	template string
	Title    string
	// Kind is what the page's object is called.
	Kind string
	// Said is a sentence below the title.
	Said        string
	Explanation *explain.Explanation
	Tables      []table
	Filters     []field
	// Previous and Next are further pages of a list.
	Previous, Next string
	// Hidden says what the user may not see.
	Hidden []string

	Navigation    []link
	User, Version string
	Now           string
	// RefreshEvery is after how many seconds the page is loaded again; 0 is never.
	// RefreshPath is the same page with that changed.
	RefreshEvery int
	RefreshPath  string
	// OIDC is the provider of the login's button; "" is none.
	OIDC string
}

type link struct {
	Text, Path string
	Here       bool
}

// field is a field of a form. With Choices it is a list to choose from.
type field struct {
	Name, Label, Value, Hint string
	Choices                  []string
}

var (
	//go:embed page.html
	markup string
	//go:embed style.css
	style []byte

	templates = template.Must(template.New("").Funcs(template.FuncMap{
		"style": func() string { return Path + "style.css?" + styleVersion },
		"level": levelName,
		"path":  func(p string) string { return Path + p },
	}).Parse(markup))
	styleVersion = func() string { sum := sha256.Sum256(style); return hex.EncodeToString(sum[:6]) }()
)

// levelName is what a level is called on the page.
func levelName(l explain.Level) string {
	switch l {
	case explain.OK:
		return "OK"
	case explain.Waiting:
		return "Waiting"
	case explain.Warning:
		return "Warning"
	}
	return "Problem"
}

// secure sets the headers that keep others out of the page: nothing runs in it, nothing is
// loaded into it but its style, nobody frames it, and no cache keeps it.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// render writes a page.
func render(w http.ResponseWriter, status int, name string, v view) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		http.Error(w, "the page can't be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
}

// serveStyle serves the style sheet, whose URL changes with it.
func serveStyle(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, "GET, HEAD")
		return
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=86400")
	_, _ = w.Write(style)
}

func methodNotAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	http.Error(w, "the page takes "+allowed+" here", http.StatusMethodNotAllowed)
}
