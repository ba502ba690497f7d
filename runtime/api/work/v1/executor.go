package v1

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// serviceAccountUserPrefix begins the user names of service accounts.
const serviceAccountUserPrefix = "system:serviceaccount:"

// UserName is the user that an executor stands for in its managed cluster. The
// error says what keeps it from standing for anybody; then nothing may be read
// or written in its name.
func (e ManifestWorkExecutor) UserName() (string, error) {
	if e.Subject.Type != ExecutorSubjectTypeServiceAccount {
		return "", errors.New("only support ServiceAccount type for the executor")
	}
	sa := e.Subject.ServiceAccount
	if sa == nil {
		return "", errors.New("the executor service account is nil")
	}
	// Neither may hold a colon, which would make it another account's name.
	for _, part := range []struct {
		field, value string
		check        func(string) []string
	}{
		{"namespace", sa.Namespace, validation.IsDNS1123Label},
		{"name", sa.Name, validation.IsDNS1123Subdomain},
	} {
		if problems := part.check(part.value); len(problems) > 0 {
			return "", fmt.Errorf("the executor service account has the %s %q, which no service account can have: %s", part.field, part.value, problems[0])
		}
	}
	return sa.UserName(), nil
}

// UserName is the service account's name as a user. It says nothing of whether
// there is one.
func (sa ManifestWorkSubjectServiceAccount) UserName() string {
	return serviceAccountUserPrefix + sa.Namespace + ":" + sa.Name
}
