package creationtimestamp_test

import (
	"encoding/json"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
)

func TestRemoveNull(t *testing.T) {
	for name, x := range map[string]struct{ object, want string }{
		"of the object":            {`{"metadata":{"creationTimestamp":null,"name":"a"}}`, `{"metadata":{"name":"a"}}`},
		"of a pod template":        {`{"spec":{"template":{"metadata":{"creationTimestamp":null}}}}`, `{"spec":{"template":{"metadata":{}}}}`},
		"of templates in a list":   {`{"spec":{"claims":[{"metadata":{"creationTimestamp":null}}]}}`, `{"spec":{"claims":[{"metadata":{}}]}}`},
		"not one that is set":      {`{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}`, `{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}`},
		"not one outside metadata": {`{"data":{"creationTimestamp":null}}`, `{"data":{"creationTimestamp":null}}`},
		"no metadata":              {`{"metadata":null}`, `{"metadata":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			var object any
			if err := json.Unmarshal([]byte(x.object), &object); err != nil {
				t.Fatal(err)
			}
			creationtimestamp.RemoveNull(object)
			if got, err := json.Marshal(object); err != nil || string(got) != x.want {
				t.Errorf("got %s, %v, want %s", got, err, x.want)
			}
		})
	}
}
