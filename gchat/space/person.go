package space

import "google.golang.org/api/chat/v1"

// Person is who types on the page.
func Person() *chat.User {
	return &chat.User{Name: Human, Type: "HUMAN", DisplayName: "You"}
}
