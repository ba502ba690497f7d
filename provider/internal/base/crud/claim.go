package crud

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Claim is what a Terraform resource remembers of the object that it manages, so
// that it knows it again. The zero Claim is that of a state which an earlier
// version of the provider has written.
type Claim struct {
	// Owner is the mark that the object carries as this resource's; empty while
	// it carries none.
	Owner string `json:"owner,omitempty"`
	// UID is the object's; empty when it was never read.
	UID types.UID `json:"uid,omitempty"`
	// Borrowed says that another resource made the mark, as after an import. The
	// next write replaces it.
	Borrowed bool `json:"borrowed,omitempty"`
	// From are the field managers of the tool that the object was made with, a * at
	// the end standing for anything. The next write takes over what they own.
	From []string `json:"from,omitempty"`
}

// NewClaim is that of a resource which is about to write its object.
func NewClaim() Claim {
	var mark [markBytes]byte
	_, _ = rand.Read(mark[:]) // Never fails.
	return Claim{Owner: base64.RawURLEncoding.EncodeToString(mark[:])}
}

// importedClaim is the claim on an object that an import takes over as it is. What people
// have set with kubectl is in the state then, so that the first write takes it over:
// otherwise removing it from the configuration would not remove it on the hub.
func importedClaim(object metav1.Object) Claim {
	owner := OwnerMark(object)
	claim := Claim{Owner: owner, UID: object.GetUID(), Borrowed: owner != ""}
	if owner == "" && FieldsOf(object, hub.FieldManager).None() {
		claim.From = []string{"kubectl*"}
	}
	return claim
}

// Terraform writes the whole state at each change of a resource, so its size is time.
// The usual claim is therefore written as one text: the mark, as NewClaim makes it, and
// the 16 bytes of the UID, both in base64.
const (
	markBytes, markLength = 9, 12
	uidBytes, uidLength   = 16, 22
)

// ParseClaim reads what Encode has written, now and in earlier versions. Text that it
// can't read, and no text, is the zero Claim.
func ParseClaim(text []byte) Claim {
	var short string
	if json.Unmarshal(text, &short) == nil {
		return parseShortClaim(short)
	}
	var c Claim
	if json.Unmarshal(text, &c) != nil {
		return Claim{}
	}
	return c
}

// Encode writes the claim down.
func (c Claim) Encode() ([]byte, error) {
	if short, ok := c.short(); ok {
		return json.Marshal(short)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write a claim down: %w", err)
	}
	return text, nil
}

// short is the claim as one text, if it is a usual one.
func (c Claim) short() (string, bool) {
	uid, err := hex.DecodeString(strings.ReplaceAll(string(c.UID), "-", ""))
	if err != nil || len(uid) != uidBytes || len(c.Owner) != markLength {
		return "", false
	}
	text := c.Owner + base64.RawURLEncoding.EncodeToString(uid)
	again := parseShortClaim(text)
	return text, again.Owner == c.Owner && again.UID == c.UID && !c.Borrowed && len(c.From) == 0
}

func parseShortClaim(text string) Claim {
	if len(text) != markLength+uidLength {
		return Claim{}
	}
	uid, err := base64.RawURLEncoding.DecodeString(text[markLength:])
	if err != nil {
		return Claim{}
	}
	digits := hex.EncodeToString(uid)
	return Claim{
		Owner: text[:markLength],
		UID: types.UID(strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]},
			"-")),
	}
}

// OwnerMark is the owner's mark on an object, or "".
func OwnerMark(object metav1.Object) string {
	return object.GetAnnotations()[cluster.TerraformOwnerAnnotation]
}

// Holds reports whether the object is still the claimant's. The mark decides: it
// survives a restore from a backup, which the UID does not. An object without a
// mark is the claimant's unless it was deleted and created again.
func (c Claim) Holds(object metav1.Object) bool {
	if mark := OwnerMark(object); mark != "" {
		return mark == c.Owner
	}
	return c.UID == "" || c.UID == object.GetUID()
}

// Writing is the claim under which the claimant writes its object.
func (c Claim) Writing() Claim {
	if c.Owner == "" || c.Borrowed {
		return NewClaim()
	}
	return c
}

// On puts the claim's mark on an object that is about to be written.
func (c Claim) On(object metav1.Object) {
	annotations := map[string]string{cluster.TerraformOwnerAnnotation: c.Owner}
	for key, value := range object.GetAnnotations() {
		if key != cluster.TerraformOwnerAnnotation {
			annotations[key] = value
		}
	}
	object.SetAnnotations(annotations)
}
