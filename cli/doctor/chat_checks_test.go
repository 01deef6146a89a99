package doctor

import (
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/api/chat/v1"
)

// A space that takes any message, the doctor's empty one too, is one that the webhook
// reaches.
func TestChatChecks_AnyAnswerIsFine(t *testing.T) {
	p := newDoctorHome(t)
	p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(chat.Message{Name: "spaces/local/messages/m"})
		}
		return r.Method == http.MethodPost
	}
	p.writeDefaults()
	if r := p.runJSON(); r.ExitCode != 0 || r.finding("chat.post").Level != OK {
		t.Errorf("exit code %d, not well: %v; %+v", r.ExitCode, r.problemIDs(), r.finding("chat.post"))
	}
}
