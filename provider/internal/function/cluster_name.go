package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// NewClusterName is cluster_name.
func NewClusterName() function.Function {
	return declared[string]{name: "cluster_name", run: func(_ context.Context, text string) (any, error) {
		return nameOf(text)
	}, definition: function.Definition{
		Summary: "A valid name for a managed cluster",
		MarkdownDescription: "Makes the name of a managed cluster out of any text, such as an ARN, a context or a " +
			"path. A text that is a " +
			"valid name already stays as it is. Any other one is reduced to lower-case letters, digits and hyphens, " +
			"shortened to 63 characters, " +
			"and gets a hash of the whole text at its end, so that two different texts do not get the same name. The " +
			"same text always gets " +
			"the same name.\n\n" +
			"A text without any letter or digit of ASCII, and a reserved name such as `default`, are errors.",
		Parameters: []function.Parameter{function.StringParameter{Name: "text", MarkdownDescription: "Any text that " +
			"identifies the cluster."}},
		Return: function.StringReturn{},
	}}
}

// hashLength is how much of the hash a name gets: 40 bits.
const hashLength = 10

func nameOf(text string) (string, error) {
	if len(validation.IsDNS1123Label(text)) == 0 {
		return text, cluster.ReservedName(text)
	}
	var cleaned strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			cleaned.WriteRune(r)
		case !strings.HasSuffix(cleaned.String(), "-"):
			cleaned.WriteByte('-')
		}
	}
	name := strings.Trim(cleaned.String(), "-")
	if name == "" {
		return "", fmt.Errorf("%q has no letter from a to z and no digit, so there is no name to make of it", text)
	}
	// The end of a path or an ARN tells more than its beginning.
	if most := validation.DNS1123LabelMaxLength - hashLength - 1; len(name) > most {
		name = strings.Trim(name[len(name)-most:], "-")
	}
	sum := sha256.Sum256([]byte(text))
	name += "-" + hex.EncodeToString(sum[:])[:hashLength]
	return name, cluster.ReservedName(name)
}
