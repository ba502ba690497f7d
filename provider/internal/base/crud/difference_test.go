package crud

import (
	"encoding/json"
	"testing"
)

// A merge patch keeps what it does not name, so what others have added is named.
func TestReplacementRemovesWhatOthersAdded(t *testing.T) {
	for _, x := range []struct{ there, wanted, want string }{
		{`{"a":1}`, `null`, `null`},
		{`null`, `{"a":1}`, `{"a":1}`},
		{`"x"`, `{"a":1}`, `{"a":1}`},
		{`{"a":1,"b":{"c":1}}`, `{"a":1}`, `{"a":1,"b":null}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, `{"a":{"b":1,"c":null}}`},
		{`[1,2]`, `[1]`, `[1]`},
	} {
		var there, wanted any
		for text, into := range map[string]*any{x.there: &there, x.wanted: &wanted} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		got, err := json.Marshal(replacement(there, wanted))
		if err != nil || string(got) != x.want {
			t.Errorf("from %s to %s: got %s (%v), want %s", x.there, x.wanted, got, err, x.want)
		}
	}
}
