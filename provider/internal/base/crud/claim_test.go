package crud

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

func marked(uid, mark string) *metav1.ObjectMeta {
	object := &metav1.ObjectMeta{UID: "u"}
	if uid != "" {
		object.UID = "other"
	}
	if mark != "" {
		object.Annotations = map[string]string{cluster.TerraformOwnerAnnotation: mark}
	}
	return object
}

func TestAResourceKnowsItsObject(t *testing.T) {
	for name, test := range map[string]struct {
		claim  Claim
		object *metav1.ObjectMeta
		want   bool
	}{
		"its mark":                                 {Claim{Owner: "a", UID: "u"}, marked("", "a"), true},
		"another's mark":                           {Claim{Owner: "a", UID: "u"}, marked("", "b"), false},
		"restored from a backup":                   {Claim{Owner: "a", UID: "u"}, marked("new", "a"), true},
		"mark removed by hand":                     {Claim{Owner: "a", UID: "u"}, marked("", ""), true},
		"created again by somebody":                {Claim{Owner: "a", UID: "u"}, marked("new", ""), false},
		"state of an earlier provider":             {Claim{}, marked("", ""), true},
		"state of an earlier provider, taken over": {Claim{}, marked("", "b"), false},
		"imported, unmarked":                       {importedClaim(marked("", "")), marked("", ""), true},
		"imported, marked":                         {importedClaim(marked("", "b")), marked("", "b"), true},
		"imported, and then taken":                 {importedClaim(marked("", "b")), marked("", "c"), false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := test.claim.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if got := ParseClaim(text).Holds(test.object); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAClaimIsWrittenShortAndReadAgain(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	own := NewClaim()
	own.UID = uid
	for name, test := range map[string]struct {
		claim Claim
		most  int // bytes
	}{
		"of a new resource":               {own, 36},
		"before the object was seen":      {NewClaim(), 30},
		"of an earlier version":           {Claim{Owner: "2ad4a38c-9bd6-4d1c-9d0c-3a1f7f5d7a10", UID: uid}, 100},
		"of an odd mark":                  {Claim{Owner: "123456789012", UID: "no-uuid"}, 60},
		"of a mark that no program makes": {Claim{Owner: "\"<\u00e4\">1234", UID: uid}, 100},
		"of a UID in capitals":            {Claim{Owner: own.Owner, UID: "0F8FAD5B-D9CB-469F-A165-70867728950E"}, 100},
		"borrowed":                        {Claim{Owner: own.Owner, UID: uid, Borrowed: true}, 100},
		"taken over from kubectl":         {Claim{Owner: own.Owner, UID: uid, From: []string{"kubectl*"}}, 120},
		"none":                            {Claim{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := test.claim.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(text) || len(text) > test.most {
				t.Errorf("wrote %s, which has %d bytes", text, len(text))
			}
			if got := ParseClaim(text); !reflect.DeepEqual(got, test.claim) {
				t.Errorf("read %+v of %s, want %+v", got, text, test.claim)
			}
		})
	}
}

func TestWhatIsNoClaimIsNone(t *testing.T) {
	for _, text := range []string{"", "x", `"x"`, `""`, "7", `["a"]`, `"aaaaaaaaaaaa!!!!!!!!!!!!!!!!!!!!!!"`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`} {
		if got := ParseClaim([]byte(text)); !reflect.DeepEqual(got, Claim{}) {
			t.Errorf("read %+v of %s", got, text)
		}
	}
}

func TestAnImportedObjectGetsAMarkOfItsOwnWithTheFirstWrite(t *testing.T) {
	imported := importedClaim(marked("", "theirs"))
	if next := imported.Writing(); next.Owner == "" || next.Owner == "theirs" {
		t.Errorf("got %+v", next)
	}
	own := NewClaim()
	if next := own.Writing(); next.Owner != own.Owner {
		t.Errorf("a mark of its own was replaced: %+v", next)
	}
}

func TestDifferencesNameFieldsAndKeepSecretsToThemselves(t *testing.T) {
	type object map[string]any
	for name, test := range map[string]struct {
		there, here object
		want        []string // open
	}{
		"equal but for what the server keeps": {
			object{"metadata": object{"uid": "1", "resourceVersion": "5", "annotations": object{cluster.TerraformOwnerAnnotation: "x"}}, "spec": object{"a": 1}},
			object{"metadata": object{"uid": "2"}, "spec": object{"a": 1}}, nil,
		},
		"labels": {
			object{"metadata": object{"labels": object{"a": "1", "b": "2"}}},
			object{"metadata": object{"labels": object{"b": "3", "c": "4"}}},
			[]string{"metadata.labels[a] is only there", `metadata.labels[b] is "2" there and "3" here`, "metadata.labels[c] is only here"},
		},
		"labels, of none": {
			object{"metadata": object{}}, object{"metadata": object{"labels": object{"c": "4"}}}, []string{"metadata.labels[c] is only here"},
		},
		"named elements": {
			object{"spec": object{"list": []any{object{"name": "a"}, object{"name": "b"}}}},
			object{"spec": object{"list": []any{object{"name": "b"}}}},
			[]string{"spec.list[a] is only there"},
		},
		"elements without names": {
			object{"spec": object{"list": []any{"a"}}}, object{"spec": object{"list": []any{"b"}}}, []string{"spec.list differs"},
		},
		"whole objects": {
			object{"spec": object{"m": []any{object{"kind": "Secret", "metadata": object{"name": "s", "namespace": "n"}, "data": "hunter2"}}}},
			object{"spec": object{"m": []any{}}},
			[]string{"spec.m[Secret n/s] is only there"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Differences(test.there, test.here, false)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				got = append(got, d.Text(true))
				if closed := d.Text(false); strings.ContainsAny(closed, `"`) {
					t.Errorf("%q tells a value", closed)
				}
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheDescriptionNamesWhoMadeAnObject(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	object := &metav1.ObjectMeta{
		CreationTimestamp: *at(3 * time.Hour),
		Labels:            map[string]string{cluster.TokenLabel: "abcdef"},
		Annotations:       map[string]string{cluster.TerraformOwnerAnnotation: "their-mark"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-edit", Time: at(2 * time.Hour)}, {Manager: "us", Time: at(time.Minute)}, {Manager: "hub", Subresource: "status", Time: at(time.Second)},
		},
	}
	got := DescribeWriters(object, "us", now)
	for _, want := range []string{"created 3h ago", `bootstrap token "abcdef"`, `this provider (60s ago), "kubectl-edit" (120m ago)`, "their-mark"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if strings.Contains(got, "hub") {
		t.Errorf("%q names who reports the status", got)
	}
}

// A server may do what it was asked and its answer may be lost. The second try
// then finds the object of the first, and must not take it for another's.
func TestAnObjectWhoseCreationWasNotAnsweredIsOnesOwn(t *testing.T) {
	var stored map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(stored)
		case stored == nil:
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &stored)
			stored["metadata"].(map[string]any)["uid"] = "made"
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict,
			})
		}
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Provider())
	client, err := kube.New(&rest.Config{Host: server.URL}, kube.Options{Scheme: scheme, Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = "s"
	claim, from, err := Write{Object: set, Manager: "us"}.Create(t.Context(), client)
	if err != nil || from != "" || claim.UID != "made" || OwnerMark(set) != claim.Owner {
		t.Errorf("got %+v from %q, %v", claim, from, err)
	}
}
