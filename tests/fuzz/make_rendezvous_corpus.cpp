// Writes the corpus of rendezvous_wire_fuzz: one conversation per kind of message.
//   program FOLDER
#include <fstream>

#include "launch/wire.h"

using trainctl::Message;
using trainctl::MessageKind;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Message hello;
  hello.kind = MessageKind::kHello;
  hello.token = "0123456789abcdef";
  hello.host = "b";
  Message all;
  all.attempt = 1;
  all.host = "host \xff";
  all.text = "text";
  all.code = 2;
  all.node_count = 2;
  all.offer.host = "b";
  all.offer.node_rank = 1;
  all.offer.agree = {{"config", "12"}};
  all.assignment.master_port = 1234;
  all.failure.host = "b";
  all.failure.text = "rank 1\nfailed";
  all.signal = 15;
  for (int kind = 0; kind <= static_cast<int>(MessageKind::kLeave); ++kind) {
    Message message = kind == 0 ? hello : all;
    message.kind = static_cast<MessageKind>(kind);
    if (message.kind == MessageKind::kJoin) message.attempt = 0;
    std::ofstream out(std::string(argv[1]) + "/message_" + std::to_string(kind), std::ios::binary);
    if (kind != 0) out << encode(hello);
    out << encode(message);
  }
}
